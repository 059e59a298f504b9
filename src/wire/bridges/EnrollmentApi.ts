/** The two enrollment endpoints (spec 4.1, 4.2). */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { BootstrapCredential, IdempotencyHeaders, LimitedByAddress, ReplayHeaders, WellFormed } from "../Headers.ts"
import { Base64Bytes, BridgeId, Fingerprint, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { text } from "../Text.ts"
import { keyedBodyCodes } from "./BridgeErrors.ts"
import { operationCodes, refusals } from "./EnrollmentErrors.ts"

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
  .annotate(OpenApi.Summary, "Claims the bootstrap credential for a key, and returns a nonce to sign.")

const prove = HttpApiEndpoint.post("prove", "/enrollment/proofs", {
  headers: IdempotencyHeaders,
  payload: Prove,
  success: HttpApiSchema.WithHeaders(EnrolledToken, ReplayHeaders),
  error: refusals(...keyedBodyCodes, ...operationCodes.prove)
})
  .middleware(WellFormed)
  .annotate(OpenApi.Summary, "Proves possession of the key, activates the Bridge and returns its token, once.")

export class EnrollmentApi extends HttpApiGroup.make("enrollment")
  .add(createChallenge, prove)
  .middleware(LimitedByAddress)
  .prefix("/bridge/v1")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}
