/** The token endpoints (spec 4.3 to 4.7), and `tokens/self`, an addition to the specification. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { BridgeToken, IdempotencyHeaders, LimitedByCredential, ReplayHeaders, WellFormed } from "../Headers.ts"
import { BridgeId, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { keyedBodyCodes, keyedRequestCodes } from "./BridgeErrors.ts"
import { abortCodes, activeTokenCodes, confirmCodes, prepareCodes, refusals } from "./RotationErrors.ts"

const bearer = { token_type: Schema.Literal("Bearer"), scope: Schema.Literal("bridge:transport") }

/** `successor_token` only authorizes confirming or aborting this rotation. */
export const Prepared = Schema.Struct({
  rotation_id: Uuid,
  successor_token: Schema.RedactedFromValue(Schema.String),
  ...bearer,
  confirmation_expires_at: Instant
})
export type Prepared = typeof Prepared.Type

export class RotationRequest extends Schema.Class<RotationRequest>("RotationRequest")({ rotation_id: Uuid }) {}

/** The successor is now the active token; the predecessor is revoked. */
export const Confirmed = Schema.Struct({
  rotation_id: Uuid,
  status: Schema.Literal("confirmed"),
  project_id: Uuid,
  bridge_id: BridgeId,
  ...bearer,
  expires_at: Instant
})
export type Confirmed = typeof Confirmed.Type

export const Aborted = Schema.Struct({
  rotation_id: Uuid,
  status: Schema.Literal("aborted"),
  project_id: Uuid,
  bridge_id: BridgeId
})
export type Aborted = typeof Aborted.Type

export const Revoked = Schema.Struct({ status: Schema.Literal("revoked"), revoked_at: Instant })
export type Revoked = typeof Revoked.Type

/** Describes the bearer token and its Bridge. `account_references` omits references that the operator has withdrawn. */
export const Self = Schema.Struct({
  project_id: Uuid,
  bridge_id: BridgeId,
  device_id: Schema.String,
  display_name: Schema.String,
  account_references: Schema.Array(Schema.String),
  scope: bearer.scope,
  token_id: Uuid,
  expires_at: Instant,
  pending_rotation: Schema.NullOr(Schema.Struct({ rotation_id: Uuid, confirmation_expires_at: Instant }))
})
export type Self = typeof Self.Type

const prepare = HttpApiEndpoint.post("prepare", "/rotate/prepare", {
  headers: IdempotencyHeaders,
  success: HttpApiSchema.WithHeaders(Prepared.pipe(HttpApiSchema.status(201)), ReplayHeaders),
  error: refusals(...keyedRequestCodes, ...prepareCodes)
}).annotate(OpenApi.Summary, "Asks for a successor of the token; the predecessor stays active.")

const confirm = HttpApiEndpoint.post("confirm", "/rotate/confirm", {
  headers: IdempotencyHeaders,
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Confirmed, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...confirmCodes)
}).annotate(OpenApi.Summary, "Makes the successor the token and revokes the predecessor, in one step.")

const abort = HttpApiEndpoint.post("abort", "/rotate/abort", {
  headers: IdempotencyHeaders,
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Aborted, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...abortCodes)
}).annotate(OpenApi.Summary, "Gives the pending successor up; the predecessor stays active.")

const revoke = HttpApiEndpoint.post("revoke", "/revoke", {
  success: Revoked,
  error: refusals("rate_limited", ...activeTokenCodes)
}).annotate(OpenApi.Summary, "Ends the token for good, and its pending successor with it.")

const self = HttpApiEndpoint.get("self", "/self", {
  success: Self,
  error: refusals("rate_limited", ...activeTokenCodes)
}).annotate(OpenApi.Summary, "Says whose token this is and what is pending.")

export class RotationApi extends HttpApiGroup.make("rotation")
  .add(prepare, confirm, abort, revoke, self)
  .middleware(WellFormed)
  .middleware(BridgeToken)
  .middleware(LimitedByCredential)
  .prefix("/bridge/v1/tokens")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}

/** OpenAPI adds a 204 to an endpoint that declares no success; the retired route never succeeds. */
const withoutSuccess = ({ responses, ...operation }: Record<string, any>) => {
  const { 204: _, ...refusals } = responses
  return { ...operation, responses: refusals }
}

const rotate = HttpApiEndpoint.post("rotate", "/bridge/v1/tokens/rotate", {
  error: refusals("bridge_rotation_protocol_upgrade_required")
})
  .annotate(OpenApi.Summary, "Retired: one-phase rotation. It changes nothing.")
  .annotate(OpenApi.Transform, withoutSuccess)

/** Retired (spec 4.6): always the same refusal, before any check of credentials, limits or body. */
export class RetiredApi extends HttpApiGroup.make("retired").add(rotate) {}
