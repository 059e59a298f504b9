/**
 * The contract of the token endpoints (spec 4.3 to 4.7), and of the additional `tokens/self`: codes, shapes, endpoints.
 *
 * The codes name the states of spec 3.3; `cancelled`, which no code names, is ours (decisions.md, Final states of a rotation).
 */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  BridgeToken,
  IdempotencyHeaders,
  LimitedByCredential,
  ProofHeaders,
  ReplayHeaders,
  WellFormed
} from "../Headers.ts"
import { BridgeId, Fingerprint, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"
import { bridgeTable, type BridgeTable, keyedBodyCodes, keyedRequestCodes } from "./BridgeErrors.ts"

export const rotationTable = {
  ...bridgeTable,
  /** The retired one-phase route (spec 4.6); it changes nothing. */
  bridge_rotation_protocol_upgrade_required: [410, "One-phase rotation is retired; use prepare and confirm.", "report"],
  /** Another successor is pending; Retry-After is the rest of its window. */
  bridge_rotation_in_progress: [409, "Another rotation is pending; confirm or abort it, or wait.", "wait"],
  /** The Bridge is replacing its key; Retry-After is the rest of that window. */
  bridge_key_rotation_in_progress: [409, "A key rotation is pending; confirm or abort it, or wait.", "wait"],
  /** The identity has no rotation with this id. */
  bridge_rotation_not_found: [404, "There is no such rotation.", "prepare"],
  /** The confirmation window passed; the predecessor is still valid. */
  bridge_rotation_expired: [410, "The confirmation window has passed; prepare again with a new key.", "prepare"],
  bridge_rotation_aborted: [409, "The rotation was aborted; prepare again with a new key.", "prepare"],
  bridge_rotation_confirmed: [409, "The rotation was confirmed already.", "done"],
  /** The bearer is a known token, but not the successor of this rotation. */
  bridge_rotation_invalid_state: [409, "This token is not the successor of that rotation.", "report"],
  /** The predecessor was revoked while its successor was pending: the Bridge has no token left. */
  bridge_rotation_predecessor_revoked: [409, "The predecessor was revoked; enroll again.", "operator"],
  /** The predecessor expired before the confirmation: the Bridge has no token left. */
  bridge_rotation_predecessor_expired: [409, "The predecessor has expired; enroll again.", "operator"]
} as const satisfies BridgeTable

export const activeTokenCodes = [
  "bridge_token_invalid",
  "bridge_proof_of_possession_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_token_pending",
  "bridge_revoked",
  "bridge_persistence_error"
] as const

const endCodes = [
  "bridge_token_invalid",
  "bridge_proof_of_possession_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_revoked",
  "bridge_rotation_not_found",
  "bridge_rotation_expired",
  "bridge_rotation_aborted",
  "bridge_rotation_confirmed",
  "bridge_rotation_invalid_state",
  "bridge_rotation_predecessor_revoked",
  "idempotency_conflict",
  "bridge_persistence_error"
] as const

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  prepare: [
    ...activeTokenCodes,
    "rate_limited",
    "bridge_rotation_in_progress",
    "bridge_key_rotation_in_progress",
    "bridge_rotation_expired",
    "bridge_rotation_aborted",
    "idempotency_conflict"
  ],
  /** It also needs a predecessor that has not expired (spec 3.2). */
  confirm: [...endCodes, "bridge_rotation_predecessor_expired"],
  abort: endCodes,
  revoke: activeTokenCodes,
  self: activeTokenCodes
} as const satisfies Record<string, ReadonlyArray<keyof typeof rotationTable>>

export type RotationRefusal<Of extends keyof typeof operationCodes = keyof typeof operationCodes> = RefusalOf<
  typeof rotationTable,
  (typeof operationCodes)[Of][number]
>
export type TokenRefusal<Code extends keyof typeof rotationTable> = RefusalOf<typeof rotationTable, Code>
export const { refuse, refusals } = fromTable(rotationTable)

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
  pending_rotation: Schema.NullOr(Schema.Struct({ rotation_id: Uuid, confirmation_expires_at: Instant })),
  /** The enrolled key. `rotation_required`: the operator asks for a new one. A service older than this field omits it. */
  key: Schema.optional(
    Schema.Struct({
      public_key_fingerprint: Fingerprint,
      since: Instant,
      rotation_required: Schema.Boolean,
      pending_rotation: Schema.NullOr(Schema.Struct({ key_rotation_id: Uuid, confirmation_expires_at: Instant }))
    })
  )
})
export type Self = typeof Self.Type

const prepare = HttpApiEndpoint.post("prepare", "/rotate/prepare", {
  headers: { ...IdempotencyHeaders, ...ProofHeaders },
  success: HttpApiSchema.WithHeaders(Prepared.pipe(HttpApiSchema.status(201)), ReplayHeaders),
  error: refusals(...keyedRequestCodes, ...operationCodes.prepare)
})
  .annotate(OpenApi.Summary, "Asks for a successor of the token; the predecessor stays active.")
  .annotate(
    OpenApi.Description,
    "The successor can only confirm or abort this rotation, until confirmation_expires_at; without that the predecessor simply goes on. An exact retry returns the same successor."
  )

const confirm = HttpApiEndpoint.post("confirm", "/rotate/confirm", {
  headers: { ...IdempotencyHeaders, ...ProofHeaders },
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Confirmed, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.confirm)
})
  .annotate(OpenApi.Summary, "Makes the successor the token and revokes the predecessor, in one step.")
  .annotate(
    OpenApi.Description,
    "The bearer is the successor. Store both tokens durably before the call: once it succeeds, only the successor is valid."
  )

const abort = HttpApiEndpoint.post("abort", "/rotate/abort", {
  headers: { ...IdempotencyHeaders, ...ProofHeaders },
  payload: RotationRequest,
  success: HttpApiSchema.WithHeaders(Aborted, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.abort)
})
  .annotate(OpenApi.Summary, "Gives the pending successor up; the predecessor stays active.")
  .annotate(
    OpenApi.Description,
    "The bearer is the successor, which ends. The next prepare needs a new Idempotency-Key."
  )

const revoke = HttpApiEndpoint.post("revoke", "/revoke", {
  headers: ProofHeaders,
  success: Revoked,
  error: refusals("rate_limited", ...operationCodes.revoke)
})
  .annotate(OpenApi.Summary, "Ends the token for good, and its pending successor with it.")
  .annotate(
    OpenApi.Description,
    "Only an enrollment with a new credential gives the Bridge a token again. A repeated request answers bridge_token_revoked, and needs no Idempotency-Key."
  )

const self = HttpApiEndpoint.get("self", "/self", {
  headers: ProofHeaders,
  success: Self,
  error: refusals("rate_limited", ...operationCodes.self)
})
  .annotate(OpenApi.Summary, "Says whose token this is and what is pending.")
  .annotate(
    OpenApi.Description,
    "Changes nothing. A Bridge calls it first after a start: it tells whether the token is valid, which rotations are pending, and whether the operator asks for a new key."
  )

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
  .annotate(
    OpenApi.Description,
    "Answers 410 to every request, before it looks at credential, limits or body. Use prepare and confirm."
  )
  .annotate(OpenApi.Transform, withoutSuccess)

/** Retired (spec 4.6): always the same refusal, before any check of credentials, limits or body. */
export class RetiredApi extends HttpApiGroup.make("retired").add(rotate) {}
