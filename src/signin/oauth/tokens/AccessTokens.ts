/** What leaves /token: a fresh access token and, for clients that refresh, the next refresh token. */
import { type Duration, Effect, type Redacted } from "effect"
import { uuidAt } from "../../../platform/crypto/Random.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { after } from "../../../wire/Instant.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import type { Minted, NewAccess } from "./AccessTokenStore.ts"

export interface TokenSet {
  readonly access_token: Redacted.Redacted<string>
  readonly refresh_token: Redacted.Redacted<string> | undefined
  /** Whole seconds. */
  readonly expires_in: number
  readonly scopes: ReadonlyArray<Scope>
}

interface Lives {
  readonly accessTtl: Duration.Duration
  readonly mobileAccessTtl: Duration.Duration
}

/** A fresh access token, not yet known to the database. */
export const mintAccess = Effect.fnUntraced(function* ({ accessTtl, mobileAccessTtl }: Lives, now: Date) {
  const token = yield* Tokens.mint("sat")
  const row: NewAccess = {
    token_id: yield* uuidAt(now),
    token_hash: Tokens.hash(token),
    expires_at: after(now, accessTtl),
    mobile_expires_at: after(now, mobileAccessTtl)
  }
  return { token, row }
})

export const tokenSet = (
  { expires_at, refreshable, scopes }: Minted,
  access_token: Redacted.Redacted<string>,
  refresh_token: Redacted.Redacted<string>,
  now: Date
): TokenSet => ({
  access_token,
  refresh_token: refreshable ? refresh_token : undefined,
  expires_in: Math.floor((expires_at.getTime() - now.getTime()) / 1000),
  scopes
})
