/** Codes about an identity and its tokens, shown only to a caller who holds them (spec 7.2 Identity, Token). */
import { sharedTable } from "../Errors.ts"
import { fromTable } from "../Refusal.ts"

export const bridgeTable = {
  ...sharedTable,
  /** Missing, malformed or unknown token. */
  bridge_token_invalid: [401, "The request carries no valid Bridge token."],
  bridge_token_expired: [401, "The Bridge token has expired; enroll again."],
  bridge_token_revoked: [401, "The Bridge token was revoked; enroll again."],
  /** A successor before its confirmation: no normal work, no prepare, no revoke. */
  bridge_token_pending: [403, "This token awaits confirmation; confirm the rotation first."],
  /** The identity was revoked by an operator, or its project is disabled. */
  bridge_revoked: [403, "This Bridge was revoked; ask the operator."],
  /** The identity is enrolled already. */
  bridge_not_pending: [409, "This Bridge is enrolled already."],
  /** Another key holds the bridge_id, or the credential was issued for another one. */
  bridge_identity_conflict: [409, "This bridge_id belongs to another key; choose another, or ask the operator."]
} as const

export const { refuse, refusals } = fromTable(bridgeTable)
