/** Codes of enrollment (spec 7.2 Bootstrap credential, Project, Challenge, Proof). */
import { bridgeTable } from "./BridgeErrors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

const table = {
  ...bridgeTable,
  /** No bearer credential came with the challenge request. */
  bridge_enrollment_credential_required: [401, "Send the bootstrap credential as bearer token."],
  /** Malformed or unknown. */
  bridge_enrollment_credential_invalid: [401, "The bootstrap credential is not valid."],
  bridge_enrollment_credential_expired: [401, "The bootstrap credential has expired; ask the operator for a new one."],
  /** Claimed, and this request is neither its exact retry nor the same Bridge after an expired challenge. */
  bridge_enrollment_credential_used: [401, "The bootstrap credential was used; ask the operator for a new one."],
  /** Revoked by the operator, or its project is disabled. */
  bridge_enrollment_credential_revoked: [401, "The bootstrap credential was revoked; ask the operator for a new one."],
  /** The challenge names another project than the credential's. */
  project_mismatch: [403, "The credential belongs to another project."],
  /** Unknown or purged. */
  enrollment_challenge_not_found: [404, "There is no such challenge; ask for a new one."],
  /** Project, bridge_id or nonce are not the challenge's. */
  enrollment_challenge_mismatch: [409, "The proof does not belong to this challenge."],
  /** Past its expiry, unused; also when its credential was revoked. */
  enrollment_challenge_expired: [410, "The challenge has expired; ask for a new one."],
  /** A token was minted from it, and this is not the exact retry. */
  enrollment_challenge_consumed: [409, "The challenge was used."],
  /** The signature does not verify, or the key could not have made one. */
  enrollment_proof_invalid: [401, "The signature does not prove possession of the key."],
  /** The public key is not the one whose fingerprint was declared. */
  enrollment_key_mismatch: [401, "The public key is not the one the challenge was made for."]
} as const

export type EnrollmentRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse, refusals, codes } = fromTable(table)
