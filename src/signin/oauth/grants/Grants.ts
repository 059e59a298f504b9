/**
 * Ends grants (RFC 7009; spec 4.10): when their client revokes them, when their person or the operator does, or when a
 * code or refresh token is used twice, which shows that it was copied. Ending a grant ends every token issued from it.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../../platform/audit/Audit.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence } from "../../../platform/database/Persistence.ts"
import { count, grantSuspicions } from "../../../platform/metrics/Metrics.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import type { Session } from "../../sessions/Sessions.ts"
import { Clients } from "../clients/Clients.ts"
import { type OAuthOperatorRefusal, type OAuthRefusal, refuse, refuseOperator } from "../Errors.ts"
import * as Store from "./GrantStore.ts"
import type { Page } from "../../../platform/sql/Page.ts"
import { CurrentOperator } from "../../../platform/settings/Operator.ts"

export type Grant = typeof Store.Grant.Type
type Unavailable = SharedRefusal<"bridge_persistence_error">
type NotFound = OAuthOperatorRefusal<"oauth_grant_not_found">

export class Grants extends Context.Service<
  Grants,
  {
    /** Ends a grant whose code or refresh token is held by two parties; the audit row is a refusal with `code`. */
    readonly endCopied: (
      grant: Pick<Grant, "grant_id" | "project_id" | "client_id">,
      code: "code_replayed" | "refresh_reused",
      now: Date
    ) => Effect.Effect<void, Unavailable>
    /**
     * A refresh token ends its whole grant, an access token only itself. Unknown tokens and tokens of other clients
     * succeed without effect (RFC 7009 2.2).
     */
    readonly revokeToken: (
      client_id: string,
      token: Redacted.Redacted<string>
    ) => Effect.Effect<void, OAuthRefusal<"invalid_client" | "unsupported_token_type"> | Unavailable>
    /** Of one project or of all, in the order of creation. */
    readonly list: (
      project_id: string | undefined,
      page: Page
    ) => Effect.Effect<ReadonlyArray<Grant>, OAuthOperatorRefusal<"project_not_found" | "bridge_persistence_error">>
    /** What the person of the session let in and what is in force, newest first; an operator let nothing in. */
    readonly own: (session: Session, page: Page) => Effect.Effect<ReadonlyArray<Grant>, Unavailable>
    /** Idempotent. */
    readonly endOwn: (session: Session, grant_id: string) => Effect.Effect<void, NotFound | Unavailable>
    /** The operator's command. Idempotent. */
    readonly revoke: (
      grant_id: string
    ) => Effect.Effect<{ readonly project_id: string; readonly revoked_at: Date }, NotFound | Unavailable>
  }
>()("service/oauth/Grants") {
  static readonly layer = Layer.effect(
    Grants,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const clients = yield* Clients
      const store = Store.make(sql)
      // They start at zero, so that the metric is exported before the first sign of theft.
      yield* Effect.forEach(["code_replayed", "refresh_reused"], (code) => count(grantSuspicions(code), 0))

      const endCopied = Effect.fn("Grants.endCopied")(
        function* (
          { client_id, grant_id, project_id }: Pick<Grant, "grant_id" | "project_id" | "client_id">,
          code: "code_replayed" | "refresh_reused",
          now: Date
        ) {
          yield* store.end(grant_id, code, now)
          yield* audit.refused(now, {
            action: "oauth_grant.revoked",
            code,
            project_id,
            actor: `oauth_client:${client_id}`,
            subject: { grant_id }
          })
          yield* count(grantSuspicions(code))
        },
        sql.withTransaction,
        persistence
      )

      const revokeToken = Effect.fn("Grants.revokeToken")(function* (
        client_id: string,
        token: Redacted.Redacted<string>
      ) {
        yield* clients.requireKnown(client_id)
        const kind = Tokens.kindOf(Redacted.value(token))
        if (kind === undefined) return
        if (kind !== "srt" && kind !== "sat") return yield* refuse("unsupported_token_type")
        const now = yield* clock.now
        const end = kind === "srt" ? store.revokeFamily : store.revokeAccess
        yield* end(Tokens.hash(token), client_id, now, yield* traceAt(now))
      }, persistence)

      const list = Effect.fn("Grants.list")(function* (project_id: string | undefined, page: Page) {
        if (project_id !== undefined && !(yield* store.projectExists(project_id)))
          return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id, page, yield* clock.now)
      }, persistence)

      const own = Effect.fn("Grants.own")(function* ({ token }: Session, page: Page) {
        return token === undefined ? [] : yield* store.own(token.token_id, page, yield* clock.now)
      }, persistence)

      const end = Effect.fnUntraced(
        function* (grant_id: string, end_reason: string, actor: string, project_token_id?: string) {
          const now = yield* clock.now
          const ended = yield* store.end(grant_id, end_reason, now, project_token_id)
          if (Option.isNone(ended)) return yield* refuseOperator("oauth_grant_not_found")
          const { first, project_id, revoked_at } = ended.value
          if (first) yield* audit.done(now, { action: "oauth_grant.revoked", project_id, actor, subject: { grant_id } })
          return { project_id, revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      const endOwn = Effect.fn("Grants.endOwn")(function* ({ actor, token }: Session, grant_id: string) {
        if (token === undefined) return yield* refuseOperator("oauth_grant_not_found")
        yield* end(grant_id, "revoked_by_person", actor, token.token_id)
      })

      const revoke = Effect.fn("Grants.revoke")(function* (grant_id: string) {
        return yield* end(grant_id, "revoked_by_operator", yield* CurrentOperator)
      })

      return { endCopied, revokeToken, list, own, endOwn, revoke }
    })
  )
}
