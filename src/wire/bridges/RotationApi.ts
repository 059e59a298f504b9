/** The token endpoints (spec 4.3 to 4.7), and the additive `tokens/self`. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { BridgeToken, IdempotencyHeaders, LimitedByCredential, ReplayHeaders, WellFormed } from "../Headers.ts"
import { BridgeId, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { refusals } from "./RotationErrors.ts"

const bearer = { token_type: Schema.Literal("Bearer"), scope: Schema.Literal("bridge:transport") }

/** `successor_token` authorizes nothing but the confirmation or the abort of this rotation. */
export const Prepared = Schema.Struct({
  rotation_id: Uuid,
  successor_token: Schema.RedactedFromValue(Schema.String),
  ...bearer,
  confirmation_expires_at: Instant
})
export type Prepared = typeof Prepared.Type

export class RotationRequest extends Schema.Class<RotationRequest>("RotationRequest")({ rotation_id: Uuid }) {}

/** From now on the successor is the token; the predecessor is revoked. */
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

/** Who the bearer is. `account_references` leaves out what the operator has withdrawn since. */
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

const guard = [
  "bridge_token_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_token_pending",
  "bridge_revoked",
  "rate_limited",
  "bridge_persistence_error"
] as const

const ending = [
  "bridge_token_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_revoked",
  "bridge_rotation_not_found",
  "bridge_rotation_expired",
  "bridge_rotation_aborted",
  "bridge_rotation_confirmed",
  "bridge_rotation_invalid_state",
  "bridge_rotation_predecessor_revoked",
  "idempotency_key_required",
  "idempotency_conflict",
  "invalid_request",
  "payload_too_large",
  "unsupported_media_type",
  "rate_limited",
  "bridge_persistence_error"
] as const

const prepare = HttpApiEndpoint.post("prepare", "/rotate/prepare", {
  headers: IdempotencyHeaders,
  success: HttpApiSchema.WithHeaders(Prepared.pipe(HttpApiSchema.status(201)), ReplayHeaders),
  error: refusals(
    ...guard,
    "bridge_rotation_in_progress",
    "bridge_rotation_expired",
    "bridge_rotation_aborted",
    "idempotency_key_required",
    "idempotency_conflict",
    "invalid_request"
  )
}).annotate(OpenApi.Summary, "Asks for a successor of the token; the predecessor stays active.")

const confirm = HttpApiEndpoint.post("confirm", "/rotate/confirm", {
  headers: IdempotencyHeaders,
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Confirmed, ReplayHeaders),
  error: refusals(...ending, "bridge_rotation_predecessor_expired")
}).annotate(OpenApi.Summary, "Makes the successor the token and revokes the predecessor, in one step.")

const abort = HttpApiEndpoint.post("abort", "/rotate/abort", {
  headers: IdempotencyHeaders,
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Aborted, ReplayHeaders),
  error: refusals(...ending)
}).annotate(OpenApi.Summary, "Gives the pending successor up; the predecessor stays active.")

const revoke = HttpApiEndpoint.post("revoke", "/revoke", { success: Revoked, error: refusals(...guard) }).annotate(
  OpenApi.Summary,
  "Ends the token for good, and its pending successor with it."
)

const self = HttpApiEndpoint.get("self", "/self", { success: Self, error: refusals(...guard) }).annotate(
  OpenApi.Summary,
  "Says whose token this is and what is pending."
)

export class RotationApi extends HttpApiGroup.make("rotation")
  .add(prepare, confirm, abort, revoke, self)
  .middleware(WellFormed)
  .middleware(BridgeToken)
  .middleware(LimitedByCredential)
  .prefix("/bridge/v1/tokens")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}

/** What OpenAPI adds where an endpoint declares no success. */
const withoutSuccess = ({ responses, ...operation }: Record<string, any>) => {
  const { 204: _, ...refusals } = responses
  return { ...operation, responses: refusals }
}

const rotate = HttpApiEndpoint.post("rotate", "/bridge/v1/tokens/rotate", {
  error: refusals("bridge_rotation_protocol_upgrade_required")
})
  .annotate(OpenApi.Summary, "Retired: one-phase rotation. It changes nothing.")
  .annotate(OpenApi.Transform, withoutSuccess)

/** Retired (spec 4.6): answers before it looks at anything, credentials included. */
export class RetiredApi extends HttpApiGroup.make("retired").add(rotate) {}
