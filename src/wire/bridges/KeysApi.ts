/**
 * The contract of key rotation (decisions.md, Key rotation): codes, shapes, endpoints.
 *
 * The new key signs the nonce of prepare, the old key signs nonce and new key, and a DPoP proof by the old key comes with
 * every request, whatever the mode.
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
import { Base64Bytes, BridgeId, Fingerprint, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"
import { type BridgeTable, keyedBodyCodes } from "./BridgeErrors.ts"
import { enrollmentTable } from "./EnrollmentApi.ts"
import { activeTokenCodes, rotationTable } from "./RotationApi.ts"

export const keysTable = {
  ...rotationTable,
  /** The identity has no key rotation with this id. */
  bridge_key_rotation_not_found: [404, "There is no such key rotation.", "prepare"],
  /** The confirmation window passed, or a re-enrollment ended the key rotation; the old key still counts. */
  bridge_key_rotation_expired: [410, "The key rotation has ended; prepare again with a new key.", "prepare"],
  bridge_key_rotation_aborted: [409, "The key rotation was aborted; prepare again with a new key.", "prepare"],
  bridge_key_rotation_confirmed: [409, "The key rotation was confirmed already.", "done"],
  enrollment_proof_invalid: enrollmentTable.enrollment_proof_invalid,
  enrollment_key_mismatch: enrollmentTable.enrollment_key_mismatch
} as const satisfies BridgeTable

const endCodes = [
  ...activeTokenCodes,
  "bridge_key_rotation_not_found",
  "bridge_key_rotation_expired",
  "bridge_key_rotation_aborted",
  "bridge_key_rotation_confirmed",
  "idempotency_conflict"
] as const

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  prepareKey: [
    ...activeTokenCodes,
    "rate_limited",
    "invalid_request",
    "bridge_rotation_in_progress",
    "bridge_key_rotation_in_progress",
    "bridge_key_rotation_expired",
    "bridge_key_rotation_aborted",
    "bridge_key_rotation_confirmed",
    "idempotency_conflict"
  ],
  confirmKey: [...endCodes, "enrollment_key_mismatch", "enrollment_proof_invalid"],
  abortKey: endCodes
} as const satisfies Record<string, ReadonlyArray<keyof typeof keysTable>>

export type KeyRefusal<Of extends keyof typeof operationCodes = keyof typeof operationCodes> = RefusalOf<
  typeof keysTable,
  (typeof operationCodes)[Of][number]
>
export const { refuse, refusals } = fromTable(keysTable)

/** The fingerprint of the new key. */
export class PrepareKey extends Schema.Class<PrepareKey>("PrepareKey")({ public_key_fingerprint: Fingerprint }) {}

/** `nonce_b64` decodes to 32 bytes. */
export const PreparedKey = Schema.Struct({
  key_rotation_id: Uuid,
  nonce_b64: Base64Bytes,
  confirmation_expires_at: Instant
})
export type PreparedKey = typeof PreparedKey.Type

/**
 * `signature_b64`: the new key over the bytes of the nonce. `predecessor_signature_b64`: the old key over these followed by
 * the 32 bytes of the new public key.
 */
export class ConfirmKey extends Schema.Class<ConfirmKey>("ConfirmKey")({
  key_rotation_id: Uuid,
  nonce_b64: Base64Bytes,
  public_key_b64: Base64Bytes,
  signature_b64: Base64Bytes,
  predecessor_signature_b64: Base64Bytes
}) {}

/** From now on the new key is the key of the Bridge. */
export const RotatedKey = Schema.Struct({
  project_id: Uuid,
  bridge_id: BridgeId,
  public_key_fingerprint: Fingerprint,
  rotated_at: Instant
})
export type RotatedKey = typeof RotatedKey.Type

export class AbortKey extends Schema.Class<AbortKey>("AbortKey")({ key_rotation_id: Uuid }) {}

export const AbortedKey = Schema.Struct({ key_rotation_id: Uuid, status: Schema.Literal("aborted") })
export type AbortedKey = typeof AbortedKey.Type

const headers = { ...IdempotencyHeaders, ...ProofHeaders }

const prepareKey = HttpApiEndpoint.post("prepareKey", "/rotate/prepare", {
  headers,
  payload: PrepareKey,
  success: HttpApiSchema.WithHeaders(PreparedKey.pipe(HttpApiSchema.status(201)), ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.prepareKey)
})
  .annotate(OpenApi.Summary, "Announces a new key and returns a nonce to sign; the old key still counts.")
  .annotate(
    OpenApi.Description,
    "Needs a DPoP proof by the old key, as every step of a key rotation does. An exact retry returns the same nonce, and without a confirmation the old key stays."
  )

const confirmKey = HttpApiEndpoint.post("confirmKey", "/rotate/confirm", {
  headers,
  payload: ConfirmKey,
  success: HttpApiSchema.WithHeaders(RotatedKey, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.confirmKey)
})
  .annotate(OpenApi.Summary, "Proves the new key by itself and by the old one, and puts it in the old one's place.")
  .annotate(
    OpenApi.Description,
    "The new key signs the nonce, the old one nonce and new key. Keep both keys until the outcome is known: a retry still needs a proof by the old one."
  )

const abortKey = HttpApiEndpoint.post("abortKey", "/rotate/abort", {
  headers,
  payload: AbortKey,
  success: HttpApiSchema.WithHeaders(AbortedKey, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.abortKey)
})
  .annotate(OpenApi.Summary, "Gives the new key up; the old one stays.")
  .annotate(OpenApi.Description, "The next prepare needs a new Idempotency-Key.")

export class KeysApi extends HttpApiGroup.make("keys")
  .add(prepareKey, confirmKey, abortKey)
  .middleware(WellFormed)
  .middleware(BridgeToken)
  .middleware(LimitedByCredential)
  .prefix("/bridge/v1/keys")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}
