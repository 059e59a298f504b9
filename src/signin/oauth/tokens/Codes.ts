/**
 * Exchanges authorization codes for tokens (OAuth 2.1 "Token Endpoint"; spec 4.10, 5.5).
 *
 * A code is exchanged once, with its PKCE verifier. A second exchange that is otherwise valid means that two parties have
 * code and verifier, so the grant ends. A wrong verifier changes nothing; otherwise anyone who saw a code could end the
 * grant (decisions.md, Reuse of an authorization code). Nor does a proof that was used, or a key other than the one that the
 * code is bound to.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../../platform/database/Persistence.ts"
import { inTurn } from "../../../platform/database/Shares.ts"
import { changes } from "../../../platform/database/Together.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after, hasPassed } from "../../../wire/Instant.ts"
import { Clients } from "../clients/Clients.ts"
import { mayUse, type Proven } from "../../possession/ClientProofs.ts"
import { type OAuthRefusal, proofUsed, refuse } from "../Errors.ts"
import { Grants } from "../grants/Grants.ts"
import { challengeOf } from "../Pkce.ts"
import * as Store from "./CodeStore.ts"
import { type IssuedTokens, issueTokens } from "./issueTokens.ts"

interface Exchange {
  readonly client_id: string
  readonly code: Redacted.Redacted<string>
  readonly verifier: string
  /** Optional (OAuth 2.1); if sent, it must be the one of the authorization request. */
  readonly redirect_uri: string | undefined
  /** The key that the client has proved; the tokens are bound to it. */
  readonly proven?: Proven | undefined
}

export class Codes extends Context.Service<
  Codes,
  {
    readonly exchange: (
      request: Exchange
    ) => Effect.Effect<
      IssuedTokens,
      | OAuthRefusal<"invalid_client" | "invalid_grant" | "unauthorized_client" | "invalid_dpop_proof">
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
      const { access, oauth, resource } = yield* Settings
      const store = Store.make(sql, { resource, instance_id: access.instanceId })
      // What was committed without an answer would look like a second exchange, which ends the grant.
      const sharing = yield* changes(store.exchange, { repeatable: false })
      const exchangeProven = (exchanging: Store.Exchanging) =>
        inTurn(Effect.map(store.exchange([exchanging], ""), ([issued]) => issued!))

      const exchange = Effect.fn("Codes.exchange")(function* ({
        client_id,
        code,
        proven,
        redirect_uri,
        verifier
      }: Exchange) {
        if (!Tokens.isToken("sac", Redacted.value(code))) {
          yield* clients.requireKnown(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const presented = {
          code_hash: Tokens.hash(code),
          client_id,
          code_challenge: challengeOf(verifier),
          redirect_uri,
          proven
        }

        const exchangeCode = proven === undefined ? sharing() : exchangeProven
        const attempt = Effect.gen(function* () {
          const refresh_token = yield* Tokens.mint("srt")
          const refresh = { token_hash: Tokens.hash(refresh_token), expires_at: after(now, oauth.refreshIdleTtl) }
          const trace = yield* traceAt(now)
          return yield* issueTokens(oauth, refresh_token, proven, now, (access) =>
            exchangeCode({ presented, access, refresh, trace })
          )
        })

        const explain = Effect.gen(function* () {
          yield* clients.requireKnown(client_id)
          const found = Option.getOrUndefined(yield* store.find(presented, now))
          if (
            found === undefined ||
            found.client_id !== client_id ||
            found.code_challenge !== presented.code_challenge ||
            (redirect_uri !== undefined && redirect_uri !== found.redirect_uri) ||
            !mayUse(found.dpop_jkt, proven)
          ) {
            return yield* refuse("invalid_grant")
          }
          if (found.proof_used) return yield* proofUsed
          if (found.used_at !== null) {
            if (found.alive) yield* grants.endCopied(found, "code_replayed", now)
            return yield* refuse("invalid_grant")
          }
          if (!found.alive || hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          return found.grant_types.includes("authorization_code") ? Option.none() : yield* refuse("unauthorized_client")
        })

        return yield* untilSettled(attempt, inTurn(explain))
      }, sharedPersistence)

      return { exchange }
    })
  )
}
