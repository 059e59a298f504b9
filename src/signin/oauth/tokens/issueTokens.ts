/** Issues a new access token and, for clients that refresh, a refresh token. */
import { type Duration, Effect, Option, Redacted } from "effect"
import { uuidAt } from "../../../platform/crypto/Random.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { after } from "../../../wire/Instant.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import type { Issued, NewAccessToken } from "./TokenClauses.ts"

export interface IssuedTokens {
  readonly access_token: Redacted.Redacted<string>
  readonly refresh_token: Redacted.Redacted<string> | undefined
  /** Whole seconds. */
  readonly expires_in: number
  readonly scopes: ReadonlyArray<Scope>
  /** The key that the tokens are bound to. */
  readonly jkt: Uint8Array | undefined
}

interface Lifetimes {
  readonly accessTtl: Duration.Duration
  readonly mobileAccessTtl: Duration.Duration
}

/** Mints an access token and runs `insert` with its row. None if the statement issued nothing. */
export const issueTokens = Effect.fnUntraced(function* <E, R>(
  { accessTtl, mobileAccessTtl }: Lifetimes,
  refresh_token: Redacted.Redacted<string>,
  proven: Proven | undefined,
  now: Date,
  insert: (access: NewAccessToken) => Effect.Effect<Option.Option<Issued>, E, R>
) {
  const access_token = yield* Tokens.mint("sat")
  const issued = yield* insert({
    token_id: yield* uuidAt(now),
    token_hash: Tokens.hash(access_token),
    expires_at: after(now, accessTtl),
    mobile_expires_at: after(now, mobileAccessTtl)
  })
  return Option.map(issued, ({ expires_at, refreshable, scopes }): IssuedTokens => ({
    access_token,
    refresh_token: refreshable ? refresh_token : undefined,
    expires_in: Math.floor((expires_at.getTime() - now.getTime()) / 1000),
    scopes,
    jkt: proven?.jkt
  }))
})
