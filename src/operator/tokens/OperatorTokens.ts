/**
 * Tokens with which an operator runs commands over HTTP (decisions.md, Operators from elsewhere). They belong to no project,
 * last 30 days at most, and are made and revoked only where the database is.
 */
import { Context, type Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { CurrentOperator, operatorOf } from "../../platform/settings/Operator.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { after } from "../../wire/Instant.ts"
import { type OperatorRefusal, refuse } from "./Errors.ts"
import * as Store from "./OperatorTokenStore.ts"
import type { OperatorScope } from "./Scopes.ts"

export interface NewOperatorToken {
  /** Who holds it; it becomes part of the actor's name in audit rows. */
  readonly label: string
  readonly scopes: ReadonlyArray<OperatorScope>
  /** At most 30 days. */
  readonly ttl: Duration.Duration
}

export interface Secret {
  readonly token_id: string
  readonly token: Redacted.Redacted<string>
}

/** Whoever sent a valid token, as audit rows name them, and what they may do. */
export interface RemoteOperator {
  readonly actor: string
  readonly scopes: ReadonlySet<OperatorScope>
}

type Unavailable = OperatorRefusal<"bridge_persistence_error">

export class OperatorTokens extends Context.Service<
  OperatorTokens,
  {
    /** A new token and its id, not stored yet. */
    readonly mint: Effect.Effect<Secret, Unavailable>
    /** The caller has written the secret to a file before. Idempotent for the same secret. */
    readonly issue: (order: NewOperatorToken, secret: Secret) => Effect.Effect<typeof Store.Issued.Type, Unavailable>
    /** In the order of creation. */
    readonly list: (page: Page) => Effect.Effect<ReadonlyArray<typeof Store.OperatorToken.Type>, Unavailable>
    /** Idempotent. */
    readonly revoke: (
      token_id: string
    ) => Effect.Effect<{ readonly revoked_at: Date }, Unavailable | OperatorRefusal<"operator_token_not_found">>
    /** `unauthorized` for every token that is not in force. */
    readonly authenticate: (
      token: Redacted.Redacted<string>
    ) => Effect.Effect<RemoteOperator, Unavailable | OperatorRefusal<"unauthorized">>
  }
>()("service/operator/OperatorTokens") {
  static readonly layer = Layer.effect(
    OperatorTokens,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const mint = Effect.gen(function* () {
        return { token_id: yield* uuidAt(yield* clock.now), token: yield* Tokens.mint("sop") }
      })

      const issue = Effect.fn("OperatorTokens.issue")(
        function* (order: NewOperatorToken, { token, token_id }: Secret) {
          const token_hash = Tokens.hash(token)
          return yield* untilSettled(store.findIssued(token_hash), insert(order, { token_hash, token_id }))
        },
        sql.withTransaction,
        persistence
      )

      /** None: an earlier attempt with the same token, whose response was lost, has just committed. */
      const insert = Effect.fnUntraced(function* (
        { label, scopes, ttl }: NewOperatorToken,
        token: { readonly token_id: string; readonly token_hash: Uint8Array }
      ) {
        const now = yield* clock.now
        const issued = yield* store.insert({ ...token, label, scopes, expires_at: after(now, ttl) }, now)
        if (Option.isNone(issued)) return issued
        yield* audit.done(now, {
          action: "operator_token.issued",
          project_id: null,
          actor: yield* CurrentOperator,
          subject: { operator_token_id: token.token_id, scopes: scopes.join(" ") }
        })
        return issued
      })

      const list = Effect.fn("OperatorTokens.list")(function* (page: Page) {
        return yield* store.list(page, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("OperatorTokens.revoke")(
        function* (token_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revoke(token_id, now)
          if (Option.isNone(revoked)) return yield* refuse("operator_token_not_found")
          const { first, revoked_at } = revoked.value
          if (first) {
            yield* audit.done(now, {
              action: "operator_token.revoked",
              project_id: null,
              actor: yield* CurrentOperator,
              subject: { operator_token_id: token_id }
            })
          }
          return { revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      const authenticate = Effect.fn("OperatorTokens.authenticate")(function* (token: Redacted.Redacted<string>) {
        if (!Tokens.isToken("sop", Redacted.value(token))) return yield* refuse("unauthorized")
        const used = yield* store.use(Tokens.hash(token), yield* clock.now)
        if (Option.isNone(used)) return yield* refuse("unauthorized")
        const { label, scopes, token_id } = used.value
        return { actor: operatorOf(label, `token-${token_id.slice(-12)}`), scopes: new Set(scopes) }
      }, persistence)

      return { mint, issue, list, revoke, authenticate }
    })
  )
}
