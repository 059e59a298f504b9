/** Codes about an identity and its tokens, answered only to a caller that holds them (spec 7.2, Identity and Token). */
import { sharedTable } from "../Errors.ts"
import { fromTable, type Reaction } from "../Refusal.ts"

/** A table of codes that a Bridge can meet: each one says what a Bridge does about it. */
export type BridgeTable = Readonly<Record<string, readonly [status: number, sentence: string, reaction: Reaction]>>

export const bridgeTable = {
  ...sharedTable,
  /** Missing, malformed or unknown token. */
  bridge_token_invalid: [401, "The request carries no valid Bridge token.", "operator"],
  /** Missing although it is required, malformed, for another request, by another key, too old, or used before. */
  bridge_proof_of_possession_invalid: [401, "The request lacks a valid DPoP proof by the key of this Bridge.", "prove"],
  bridge_token_expired: [401, "The Bridge token has expired; enroll again.", "operator"],
  bridge_token_revoked: [401, "The Bridge token was revoked; enroll again.", "operator"],
  /** A successor before its confirmation: it cannot do normal work, prepare or revoke. */
  bridge_token_pending: [403, "This token awaits confirmation; confirm the rotation first.", "report"],
  /** An operator revoked the identity, or its project is disabled. */
  bridge_revoked: [403, "This Bridge was revoked; ask the operator.", "operator"],
  /** The identity is enrolled already. */
  bridge_not_pending: [409, "This Bridge is enrolled already.", "operator"],
  /** Another key holds the bridge_id, or the credential was issued for another bridge_id. */
  bridge_identity_conflict: [
    409,
    "This bridge_id belongs to another key; choose another, or ask the operator.",
    "operator"
  ]
} as const satisfies BridgeTable

export const { refuse, refusals } = fromTable(bridgeTable)

/** The codes with which the edge refuses a request before an operation with an Idempotency-Key runs. */
export const keyedRequestCodes = ["idempotency_key_required", "invalid_request", "rate_limited"] as const

/** The same for an operation that also takes a body. */
export const keyedBodyCodes = [...keyedRequestCodes, "payload_too_large", "unsupported_media_type"] as const
