/**
 * How grants end (RFC 7009; spec 4.10, 5): by their client, by the operator, or because a copy of a code or of a refresh
 * token turned up. With a grant ends every token that came out of it.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../../platform/audit/Audit.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence } from "../../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { Clients } from "../clients/Clients.ts"
import { type OAuthOperatorRefusal, type OAuthRefusal, refuse, refuseOperator } from "../Errors.ts"
import * as Store from "./GrantStore.ts"

type Grant = typeof Store.Grant.Type
type Lost = SharedRefusal<"bridge_persistence_error">

export class Grants extends Context.Service<
  Grants,
  {
    /** Somebody holds what only one party should have. */
    readonly endCopied: (
      grant: Pick<Grant, "grant_id" | "project_id" | "client_id">,
      code: "code_replayed" | "refresh_reused",
      now: Date
    ) => Effect.Effect<void, Lost>
    /** A refresh token ends its whole grant, an access token only itself; anybody else's token nothing (RFC 7009). */
    readonly revokeToken: (
      client_id: string,
      token: Redacted.Redacted<string>
    ) => Effect.Effect<void, OAuthRefusal<"invalid_client" | "unsupported_token_type"> | Lost>
    readonly list: (
      project_id: string
    ) => Effect.Effect<ReadonlyArray<Grant>, OAuthOperatorRefusal<"project_not_found" | "bridge_persistence_error">>
    /** The operator's; may be repeated. */
    readonly revoke: (
      grant_id: string
    ) => Effect.Effect<
      { readonly project_id: string; readonly revoked_at: Date },
      OAuthOperatorRefusal<"oauth_grant_not_found" | "bridge_persistence_error">
    >
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

      const endCopied = Effect.fn("Grants.endCopied")(function* (
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
      }, persistence)

      const revokeToken = Effect.fn("Grants.revokeToken")(function* (
        client_id: string,
        token: Redacted.Redacted<string>
      ) {
        yield* clients.known(client_id)
        const kind = Tokens.kindOf(Redacted.value(token))
        if (kind === undefined) return
        if (kind !== "srt" && kind !== "sat") return yield* refuse("unsupported_token_type")
        const now = yield* clock.now
        const end = kind === "srt" ? store.revokeFamily : store.revokeAccess
        yield* end(Tokens.hash(token), client_id, now, yield* traceAt(now))
      }, persistence)

      const list = Effect.fn("Grants.list")(function* (project_id: string) {
        if ((yield* store.projectExists(project_id)).length === 0) return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("Grants.revoke")(
        function* (grant_id: string) {
          const now = yield* clock.now
          const ended = yield* store.end(grant_id, "revoked_by_operator", now)
          if (Option.isNone(ended)) return yield* refuseOperator("oauth_grant_not_found")
          const { first, project_id, revoked_at } = ended.value
          if (first) {
            yield* audit.done(now, {
              action: "oauth_grant.revoked",
              project_id,
              actor: "operator",
              subject: { grant_id }
            })
          }
          return { project_id, revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      return { endCopied, revokeToken, list, revoke }
    })
  )
}
