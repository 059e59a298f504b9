/**
 * Exchanges refresh tokens for new tokens (OAuth 2.1 "Refreshing an Access Token"; spec 4.10).
 *
 * 1. A refresh token is used once and has one successor, derived from the token itself and a stored salt. During the
 *    grace period a client that lost the response, or sent two requests at once, gets the same successor again.
 * 2. A used refresh token that is presented after the grace period, or after its successor was used, has been copied: the
 *    grant ends, and every token issued from it (decisions.md, Reuse of a refresh token).
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
import { Clients } from "../clients/Clients.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { Grants } from "../grants/Grants.ts"
import { type IssuedTokens, issueTokens } from "./issueTokens.ts"
import * as Store from "./RefreshTokenStore.ts"

interface Refresh {
  readonly client_id: string
  readonly refresh_token: Redacted.Redacted<string>
  /** A subset of the granted scopes; undefined: all of them. */
  readonly scopes: ReadonlyArray<Scope> | undefined
}

export class RefreshTokens extends Context.Service<
  RefreshTokens,
  {
    readonly refresh: (
      request: Refresh
    ) => Effect.Effect<
      IssuedTokens,
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
      const { access, oauth, resource } = yield* Settings
      const store = Store.make(sql, { resource, instance_id: access.instanceId })

      const refresh = Effect.fn("RefreshTokens.refresh")(function* ({ client_id, refresh_token, scopes }: Refresh) {
        if (!Tokens.isToken("srt", Redacted.value(refresh_token))) {
          yield* clients.requireKnown(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const narrowed = scopes === undefined ? null : expanded(scopes)
        const presented = { token_hash: Tokens.hash(refresh_token), client_id, scopes: narrowed }

        const attempt = Effect.gen(function* () {
          const successor_salt = yield* salt
          const successor = successorOf(refresh_token, successor_salt)
          const row = {
            token_hash: Tokens.hash(successor),
            expires_at: after(now, oauth.refreshIdleTtl),
            salt: successor_salt
          }
          const trace = yield* traceAt(now)
          return yield* issueTokens(oauth, successor, now, (access_token) =>
            store.use(presented, access_token, row, now, trace)
          )
        })

        const explain = Effect.gen(function* () {
          yield* clients.requireKnown(client_id)
          const found = Option.getOrUndefined(yield* store.find(presented.token_hash, now))
          if (found === undefined || found.client_id !== client_id || !found.alive) {
            return yield* refuse("invalid_grant")
          }
          if (!found.grant_types.includes("refresh_token")) return yield* refuse("unauthorized_client")
          if (found.used_at === null && hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          if (narrowed?.some((scope) => !found.scopes.includes(scope))) return yield* refuse("invalid_scope")
          return found.used_at === null ? Option.none() : yield* replay(found)
        })

        /** Returns the same successor while it is unused and within the grace period; otherwise ends the grant. */
        const replay = Effect.fnUntraced(function* (found: Store.RefreshState) {
          const since = new Date(now.getTime() - Duration.toMillis(oauth.refreshGrace))
          if (found.successor_salt === null || hasPassed(found.used_at!, since)) {
            yield* grants.endCopied(found, "refresh_reused", now)
            return yield* refuse("invalid_grant")
          }
          const successor = successorOf(refresh_token, found.successor_salt)
          const trace = yield* traceAt(now)
          return yield* issueTokens(oauth, successor, now, (access_token) =>
            store.replay({ ...presented, since }, access_token, now, trace)
          )
        })

        return yield* untilSettled(attempt, explain)
      }, persistence)

      return { refresh }
    })
  )
}

/** Deterministic for one token and salt. The database alone cannot derive it: it stores only the token's hash. */
const successorOf = (predecessor: Redacted.Redacted<string>, successor_salt: Uint8Array) =>
  Tokens.format("srt", deriveFrom(predecessor, "oauth/v1/refresh-successor", [successor_salt]))
