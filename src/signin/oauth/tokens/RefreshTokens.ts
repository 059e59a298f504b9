/**
 * Refresh tokens and their successors (OAuth 2.1 "Refreshing an Access Token"; spec 4.10, 5).
 *
 * 1. A refresh token is used once and makes one successor, derived from the token itself and a stored salt. Within the
 *    grace a client that lost the answer, or asked twice at once, gets the same successor again.
 * 2. A used refresh token that comes back after its successor was used, or after the grace, was copied: the grant ends,
 *    and with it every token that came out of it.
 */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { deriveFrom } from "../../../platform/crypto/Derivation.ts"
import { salt } from "../../../platform/crypto/Random.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after, hasPassed } from "../../../wire/Instant.ts"
import { expanded, type Scope } from "../../../wire/Scopes.ts"
import { mintAccess, type TokenSet, tokenSet } from "./AccessTokens.ts"
import { Clients } from "../clients/Clients.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { Grants } from "../grants/Grants.ts"
import * as Store from "./RefreshTokenStore.ts"
import { resourceOf } from "../metadata/Resource.ts"

interface Refresh {
  readonly client_id: string
  readonly refresh_token: Redacted.Redacted<string>
  /** Fewer than were granted; undefined: all of them. */
  readonly scopes: ReadonlyArray<Scope> | undefined
}

export class RefreshTokens extends Context.Service<
  RefreshTokens,
  {
    readonly refresh: (
      asked: Refresh
    ) => Effect.Effect<
      TokenSet,
      | OAuthRefusal<"invalid_client" | "invalid_grant" | "unauthorized_client" | "invalid_scope">
      | SharedRefusal<"bridge_persistence_error">
    >
  }
>()("service/oauth/RefreshTokens") {
  static readonly layer = Layer.effect(
    RefreshTokens,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const clients = yield* Clients
      const grants = yield* Grants
      const { access, baseUrl, oauth } = yield* Settings
      const store = Store.make(sql, { resource: resourceOf(baseUrl.origin), instance_id: access.instanceId })

      const refresh = Effect.fn("RefreshTokens.refresh")(function* ({ client_id, refresh_token, scopes }: Refresh) {
        if (!Tokens.isToken("srt", Redacted.value(refresh_token))) {
          yield* clients.known(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const narrowed = scopes === undefined ? null : expanded(scopes)
        const presented = { token_hash: Tokens.hash(refresh_token), client_id, scopes: narrowed }

        const attempt = Effect.gen(function* () {
          const { row, token } = yield* mintAccess(oauth, now)
          const successor_salt = yield* salt
          const next = successorOf(refresh_token, successor_salt)
          const successor = {
            token_hash: Tokens.hash(next),
            expires_at: after(now, oauth.refreshIdleTtl),
            salt: successor_salt
          }
          const minted = yield* store.use(presented, row, successor, now, yield* traceAt(now))
          return Option.map(minted, (given) => tokenSet(given, token, next, now))
        })

        const explain = Effect.gen(function* () {
          yield* clients.known(client_id)
          const found = Option.getOrUndefined(yield* store.find(presented.token_hash, now))
          if (found === undefined || found.client_id !== client_id || !found.alive) {
            return yield* refuse("invalid_grant")
          }
          if (!found.grant_types.includes("refresh_token")) return yield* refuse("unauthorized_client")
          if (found.used_at === null && hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          if (narrowed?.some((scope) => !found.scopes.includes(scope))) return yield* refuse("invalid_scope")
          return found.used_at === null ? Option.none() : yield* replay(found)
        })

        /** The successor again while it is unused and the grace lasts; else the family ends. */
        const replay = Effect.fnUntraced(function* (found: Store.RefreshState) {
          const since = new Date(now.getTime() - Duration.toMillis(oauth.refreshGrace))
          if (found.successor_salt === null || hasPassed(found.used_at!, since)) {
            yield* grants.endCopied(found, "refresh_reused", now)
            return yield* refuse("invalid_grant")
          }
          const { row, token } = yield* mintAccess(oauth, now)
          const next = successorOf(refresh_token, found.successor_salt)
          const minted = yield* store.replay({ ...presented, since }, row, now, yield* traceAt(now))
          return Option.map(minted, (given) => tokenSet(given, token, next, now))
        })

        return yield* untilSettled(attempt, explain)
      }, persistence)

      return { refresh }
    })
  )
}

/** The same for everybody who presents the same token while its salt is kept; from the rows alone nobody derives it. */
const successorOf = (predecessor: Redacted.Redacted<string>, successor_salt: Uint8Array) =>
  Tokens.format("srt", deriveFrom(predecessor, "oauth/v1/refresh-successor", [successor_salt]))
