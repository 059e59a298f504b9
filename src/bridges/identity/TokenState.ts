/**
 * The state of a presented Bridge token, and whether it may do normal work (spec 3.2, 5).
 *
 * The checks run in a fixed order: a revoked identity is reported as `bridge_revoked` and nothing else, then comes the
 * state of the token, then its expiry. A token past its expiry counts as expired before a sweep has marked it.
 */
import { Schema } from "effect"
import { refuse } from "../../wire/bridges/BridgeErrors.ts"
import { hasPassed } from "../../wire/Instant.ts"

export const TokenState = Schema.Struct({
  token_id: Schema.String,
  state: Schema.Literals(["pending", "active", "revoked", "expired"]),
  expires_at: Schema.NullOr(Schema.Date),
  ended_at: Schema.NullOr(Schema.Date),
  end_reason: Schema.NullOr(Schema.String),
  project_id: Schema.String,
  bridge_id: Schema.String,
  /** The identity was revoked, or its project is disabled. */
  revoked: Schema.Boolean,
  /** The end of the window of the rotation that this token is the successor of. */
  confirmation_expires_at: Schema.NullOr(Schema.Date)
})
export type TokenState = typeof TokenState.Type

/** The refusal for a token that may not do normal work; undefined for any other. */
export const refusalUnlessActive = (token: TokenState, now: Date) => {
  if (token.revoked) return refuse("bridge_revoked")
  const ended = refusalIfEnded(token, now)
  if (ended !== undefined) return ended
  return token.state === "pending" ? refuse("bridge_token_pending") : undefined
}

/** The refusal for a token that has ended; undefined when it is active, or pending within its window. */
export const refusalIfEnded = (token: TokenState, now: Date) => {
  const lapsed = token.state === "pending" && hasPassed(token.confirmation_expires_at!, now)
  if (token.state === "revoked" || lapsed) return refuse("bridge_token_revoked")
  if (token.state === "expired" || (token.state === "active" && hasPassed(token.expires_at!, now))) {
    return refuse("bridge_token_expired")
  }
  return undefined
}

/** Whether a predecessor is used more than a minute after its rotation: too late for a retry, so it may be a copy. */
export const isReusedAfterRotation = (token: TokenState, now: Date) =>
  token.end_reason === "rotated" && now.getTime() - token.ended_at!.getTime() > 60_000
