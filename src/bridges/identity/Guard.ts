/**
 * The Bridge token guard (spec 3.2, 5): what a presented token is worth for normal Bridge work.
 *
 * The order is one of honesty towards its holder: an identity that was revoked learns only that, then the token's state,
 * then its expiry. Expiry is a matter of time, whether or not the sweeper has written it down yet.
 */
import { Schema } from "effect"
import { hasPassed } from "../../wire/Instant.ts"
import { refuse } from "../../wire/bridges/BridgeErrors.ts"

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
  /** Of the rotation that made this token its successor. */
  confirmation_expires_at: Schema.NullOr(Schema.Date)
})
export type TokenState = typeof TokenState.Type

/** Why the token authorizes no normal work; undefined when it does. */
export const refusalOf = (token: TokenState, now: Date) => {
  if (token.revoked) return refuse("bridge_revoked")
  const ended = endedRefusal(token, now)
  if (ended !== undefined) return ended
  return token.state === "pending" ? refuse("bridge_token_pending") : undefined
}

/** The part that also holds where a pending successor is the right bearer. */
export const endedRefusal = (token: TokenState, now: Date) => {
  const lapsed = token.state === "pending" && hasPassed(token.confirmation_expires_at!, now)
  if (token.state === "revoked" || lapsed) return refuse("bridge_token_revoked")
  if (token.state === "expired" || (token.state === "active" && hasPassed(token.expires_at!, now))) {
    return refuse("bridge_token_expired")
  }
  return undefined
}

/** A rotated-away token came back after every honest retry should have ended: somebody may have copied it. */
export const isReuse = (token: TokenState, now: Date) =>
  token.end_reason === "rotated" && now.getTime() - token.ended_at!.getTime() > 60_000
