/** The contract of enrollment: codes (spec 7.2), shapes, and the two endpoints (spec 4.1, 4.2). */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  BootstrapCredential,
  IdempotencyHeaders,
  LimitedByAddress,
  LimitedByCredential,
  ReplayHeaders,
  WellFormed
} from "../Headers.ts"
import { Base64Bytes, BridgeId, Fingerprint, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { text } from "../Text.ts"
import { keyedBodyCodes, bridgeTable, type BridgeTable } from "./BridgeErrors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

export const enrollmentTable = {
  ...bridgeTable,
  /** The challenge request carries no bearer credential. */
  bridge_enrollment_credential_required: [401, "Send the bootstrap credential as bearer token.", "report"],
  /** Malformed or unknown. */
  bridge_enrollment_credential_invalid: [401, "The bootstrap credential is not valid.", "operator"],
  bridge_enrollment_credential_expired: [
    401,
    "The bootstrap credential has expired; ask the operator for a new one.",
    "operator"
  ],
  /** Claimed, and this request is neither an exact retry nor the same Bridge after its challenge expired. */
  bridge_enrollment_credential_used: [
    401,
    "The bootstrap credential was used; ask the operator for a new one.",
    "operator"
  ],
  /** The operator revoked it, or its project is disabled. */
  bridge_enrollment_credential_revoked: [
    401,
    "The bootstrap credential was revoked; ask the operator for a new one.",
    "operator"
  ],
  /** The request names another project than the credential's. */
  project_mismatch: [403, "The credential belongs to another project.", "operator"],
  /** Unknown, or purged after it ended. */
  enrollment_challenge_not_found: [404, "There is no such challenge; ask for a new one.", "challenge"],
  /** Project, bridge_id or nonce differ from the challenge's. */
  enrollment_challenge_mismatch: [409, "The proof does not belong to this challenge.", "report"],
  /** Unused past its expiry, or its credential was revoked. */
  enrollment_challenge_expired: [410, "The challenge has expired; ask for a new one.", "challenge"],
  /** A token was minted from it, and this is not the exact retry. */
  enrollment_challenge_consumed: [409, "The challenge was used.", "operator"],
  /** The signature does not verify, or the public key is not a valid Ed25519 point. */
  enrollment_proof_invalid: [401, "The signature does not prove possession of the key.", "report"],
  /** The public key does not have the fingerprint that the challenge declared. */
  enrollment_key_mismatch: [401, "The public key is not the one the challenge was made for.", "report"]
} as const satisfies BridgeTable

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  createChallenge: [
    "bridge_enrollment_credential_invalid",
    "bridge_enrollment_credential_revoked",
    "bridge_enrollment_credential_used",
    "bridge_enrollment_credential_expired",
    "project_mismatch",
    "bridge_revoked",
    "bridge_not_pending",
    "bridge_identity_conflict",
    "invalid_request",
    "secret_detected",
    "idempotency_conflict",
    "bridge_persistence_error"
  ],
  prove: [
    "enrollment_challenge_not_found",
    "enrollment_challenge_mismatch",
    "enrollment_key_mismatch",
    "enrollment_proof_invalid",
    "enrollment_challenge_consumed",
    "enrollment_challenge_expired",
    "bridge_revoked",
    "bridge_not_pending",
    "idempotency_conflict",
    "bridge_persistence_error"
  ]
} as const satisfies Record<string, ReadonlyArray<keyof typeof enrollmentTable>>

export type EnrollmentRefusal<Of extends keyof typeof operationCodes> = RefusalOf<
  typeof enrollmentTable,
  (typeof operationCodes)[Of][number]
>
export const { refuse, refusals, codes } = fromTable(enrollmentTable)

export class CreateChallenge extends Schema.Class<CreateChallenge>("CreateChallenge")({
  project_id: Uuid,
  bridge_id: BridgeId,
  device_id: text(128),
  display_name: text(120),
  public_key_fingerprint: Fingerprint
}) {}

/** `nonce_b64` decodes to 32 bytes. The Bridge signs exactly these bytes. */
export const Challenge = Schema.Struct({
  challenge_id: Uuid,
  project_id: Uuid,
  bridge_id: BridgeId,
  public_key_fingerprint: Fingerprint,
  nonce_b64: Base64Bytes,
  expires_at: Instant
})
export type Challenge = typeof Challenge.Type

/** Ed25519 (RFC 8032): a signature of 64 bytes over the nonce, and the raw public key of 32 bytes. */
export class Prove extends Schema.Class<Prove>("Prove")({
  project_id: Uuid,
  bridge_id: BridgeId,
  challenge_id: Uuid,
  nonce_b64: Base64Bytes,
  signature_b64: Base64Bytes,
  public_key_b64: Base64Bytes
}) {}

export const EnrolledToken = Schema.Struct({
  project_id: Uuid,
  bridge_id: BridgeId,
  access_token: Schema.Redacted(Schema.String),
  token_type: Schema.Literal("Bearer"),
  scope: Schema.Literal("bridge:transport"),
  expires_at: Instant
})
export type EnrolledToken = typeof EnrolledToken.Type

const createChallenge = HttpApiEndpoint.post("createChallenge", "/enrollment/challenges", {
  headers: IdempotencyHeaders,
  payload: CreateChallenge,
  success: HttpApiSchema.WithHeaders(Challenge.pipe(HttpApiSchema.status(201)), ReplayHeaders),
  error: refusals("bridge_enrollment_credential_required", ...keyedBodyCodes, ...operationCodes.createChallenge)
})
  .middleware(WellFormed)
  .middleware(BootstrapCredential)
  .middleware(LimitedByCredential)
  .annotate(OpenApi.Summary, "Claims the bootstrap credential for a key, and returns a nonce to sign.")
  .annotate(
    OpenApi.Description,
    "The first challenge claims the credential for its Bridge and key; a refused request claims nothing. An exact retry returns the same nonce."
  )

const prove = HttpApiEndpoint.post("prove", "/enrollment/proofs", {
  headers: IdempotencyHeaders,
  payload: Prove,
  success: HttpApiSchema.WithHeaders(EnrolledToken, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.prove)
})
  .middleware(WellFormed)
  .annotate(OpenApi.Summary, "Proves possession of the key, activates the Bridge and returns its token, once.")
  .annotate(
    OpenApi.Description,
    "Needs no bearer: the Ed25519 signature over the 32 bytes of the nonce is the proof. An exact retry returns the same token, and a refused proof leaves the challenge open."
  )

export class EnrollmentApi extends HttpApiGroup.make("enrollment")
  .add(createChallenge, prove)
  .middleware(LimitedByAddress)
  .prefix("/bridge/v1")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}
