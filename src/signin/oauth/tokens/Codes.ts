/**
 * Codes become tokens (OAuth 2.1 "Token Endpoint"; spec 4.10, 5).
 *
 * A code is exchanged once, by whoever has its verifier. A second exchange that is otherwise valid means that two parties
 * have code and verifier: the grant ends. One with a wrong verifier changes nothing, else a stranger who saw the code
 * could end other people's grants.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after, hasPassed } from "../../../wire/Instant.ts"
import { mintAccess, type TokenSet, tokenSet } from "./AccessTokens.ts"
import { Clients } from "../clients/Clients.ts"
import * as Store from "./CodeStore.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { Grants } from "../grants/Grants.ts"
import { challengeOf } from "../authorize/Pkce.ts"
import { resourceOf } from "../metadata/Resource.ts"

interface Exchange {
  readonly client_id: string
  readonly code: Redacted.Redacted<string>
  readonly verifier: string
  /** Has to be the one of the authorization request, where it is sent at all (OAuth 2.1). */
  readonly redirect_uri: string | undefined
}

export class Codes extends Context.Service<
  Codes,
  {
    readonly exchange: (
      asked: Exchange
    ) => Effect.Effect<
      TokenSet,
      | OAuthRefusal<"invalid_client" | "invalid_grant" | "unauthorized_client">
      | SharedRefusal<"bridge_persistence_error">
    >
  }
>()("service/oauth/Codes") {
  static readonly layer = Layer.effect(
    Codes,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const clients = yield* Clients
      const grants = yield* Grants
      const { access, baseUrl, oauth } = yield* Settings
      const store = Store.make(sql, { resource: resourceOf(baseUrl.origin), instance_id: access.instanceId })

      const exchange = Effect.fn("Codes.exchange")(function* ({ client_id, code, redirect_uri, verifier }: Exchange) {
        if (!Tokens.isToken("sac", Redacted.value(code))) {
          yield* clients.known(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const asked = { code_hash: Tokens.hash(code), client_id, code_challenge: challengeOf(verifier), redirect_uri }

        const attempt = Effect.gen(function* () {
          const { row, token } = yield* mintAccess(oauth, now)
          const first = yield* Tokens.mint("srt")
          const refresh = { token_hash: Tokens.hash(first), expires_at: after(now, oauth.refreshIdleTtl) }
          const minted = yield* store.exchange(asked, row, refresh, now, yield* traceAt(now))
          return Option.map(minted, (given) => tokenSet(given, token, first, now))
        })

        const explain = Effect.gen(function* () {
          yield* clients.known(client_id)
          const found = Option.getOrUndefined(yield* store.find(asked.code_hash, now))
          if (
            found === undefined ||
            found.client_id !== client_id ||
            found.code_challenge !== asked.code_challenge ||
            (redirect_uri !== undefined && redirect_uri !== found.redirect_uri)
          ) {
            return yield* refuse("invalid_grant")
          }
          if (found.used_at !== null) {
            if (found.alive) yield* grants.endCopied(found, "code_replayed", now)
            return yield* refuse("invalid_grant")
          }
          if (!found.alive || hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          return found.grant_types.includes("authorization_code") ? Option.none() : yield* refuse("unauthorized_client")
        })

        return yield* untilSettled(attempt, explain)
      }, persistence)

      return { exchange }
    })
  )
}
