/** Codes of enrollment (spec 7.2, Bootstrap credential, Project, Challenge and Proof), and which operation raises which. */
import { fromTable, type RefusalOf } from "../Refusal.ts"
import { bridgeTable, type BridgeTable } from "./BridgeErrors.ts"

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

/** The codes of creating a challenge. */
export const challengeCodes = [
  "bridge_enrollment_credential_invalid",
  "bridge_enrollment_credential_revoked",
  "bridge_enrollment_credential_used",
  "bridge_enrollment_credential_expired",
  "project_mismatch",
  "bridge_revoked",
  "bridge_not_pending",
  "bridge_identity_conflict",
  "invalid_request",
  "idempotency_conflict",
  "bridge_persistence_error"
] as const

/** The codes of a proof. */
export const proofCodes = [
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
] as const

export type EnrollmentRefusal<Code extends keyof typeof enrollmentTable = keyof typeof enrollmentTable> = RefusalOf<
  typeof enrollmentTable,
  Code
>
export const { refuse, refusals, codes } = fromTable(enrollmentTable)
