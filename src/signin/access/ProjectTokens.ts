/**
 * Project tokens, the operator's side (spec 5): issue, list, revoke.
 *
 * The raw token leaves this service once, `Redacted`, for the file that the command writes; the row keeps its hash.
 */
import { Context, Duration, Effect, Layer, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { after } from "../../wire/Instant.ts"
import { expanded, ofRole, type Role, type Scope } from "../../wire/Scopes.ts"
import { type ProjectTokenRefusal, refuseOperator as refuse } from "./Errors.ts"
import * as Store from "./ProjectTokenStore.ts"

export interface Order {
  readonly project_id: string
  readonly role: Role
  /** Empty: all that the role allows. */
  readonly scopes: ReadonlyArray<Scope>
  readonly ttl: Option.Option<Duration.Duration>
}

export interface Secret {
  readonly token_id: string
  readonly token: Redacted.Redacted<string>
}

type Issued = typeof Store.Issued.Type
type ProjectToken = typeof Store.ProjectToken.Type
type Lost = ProjectTokenRefusal<"bridge_persistence_error">

export class ProjectTokens extends Context.Service<
  ProjectTokens,
  {
    /** A fresh token and its id, not yet known to the database. */
    readonly mint: Effect.Effect<Secret, Lost>
    /** `secret` comes from the caller, who has put it into a file already. May be repeated with the same secret. */
    readonly issue: (
      order: Order,
      secret: Secret
    ) => Effect.Effect<
      Issued,
      Lost | ProjectTokenRefusal<"project_not_found" | "project_disabled" | "scope_not_allowed">
    >
    readonly list: (
      project_id: string
    ) => Effect.Effect<ReadonlyArray<ProjectToken>, Lost | ProjectTokenRefusal<"project_not_found">>
    /** Ends its OAuth grants with it and answers their ids. May be repeated. */
    readonly revoke: (
      token_id: string
    ) => Effect.Effect<
      { readonly project_id: string; readonly revoked_at: Date; readonly grant_ids: ReadonlyArray<string> },
      Lost | ProjectTokenRefusal<"project_token_not_found">
    >
  }
>()("service/access/ProjectTokens") {
  static readonly layer = Layer.effect(
    ProjectTokens,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const mint = Effect.gen(function* () {
        return { token_id: yield* uuidAt(yield* clock.now), token: yield* Tokens.mint("spt") }
      })

      const issue = Effect.fn("ProjectTokens.issue")(
        function* (order: Order, secret: Secret) {
          const now = yield* clock.now
          const token_hash = Tokens.hash(secret.token)
          const earlier = store.findIssued(token_hash)
          const { token_id } = secret
          return yield* untilSettled(earlier, insert(order, { token_id, token_hash }, now))
        },
        sql.withTransaction,
        persistence
      )

      /** None: an earlier attempt, whose answer was lost, has just committed. */
      const insert = Effect.fnUntraced(function* (
        { project_id, role, scopes, ttl }: Order,
        token: { readonly token_id: string; readonly token_hash: Uint8Array },
        now: Date
      ) {
        const project = yield* store.findProject(project_id)
        if (Option.isNone(project)) return yield* refuse("project_not_found")
        if (project.value.disabled) return yield* refuse("project_disabled")
        const allowed = ofRole(role)
        if (!scopes.every((scope) => allowed.includes(scope))) return yield* refuse("scope_not_allowed")
        const issued = yield* store.insert(
          {
            ...token,
            project_id,
            role,
            scopes: expanded(scopes.length === 0 ? allowed : scopes),
            expires_at: Option.getOrNull(Option.map(ttl, (duration) => after(now, duration)))
          },
          now
        )
        if (Option.isNone(issued)) return issued
        yield* audit.done(now, {
          action: "project_token.issued",
          project_id,
          actor: "operator",
          subject: { project_token_id: token.token_id }
        })
        return issued
      })

      const list = Effect.fn("ProjectTokens.list")(function* (project_id: string) {
        if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("ProjectTokens.revoke")(
        function* (token_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revoke(token_id, now)
          if (Option.isNone(revoked)) return yield* refuse("project_token_not_found")
          const { first, project_id, revoked_at } = revoked.value
          const grants = yield* store.endGrants(token_id, now)
          if (first) {
            yield* audit.done(now, {
              action: "project_token.revoked",
              project_id,
              actor: "operator",
              subject: { project_token_id: token_id }
            })
          }
          return { project_id, revoked_at, grant_ids: grants.map(({ grant_id }) => grant_id) }
        },
        sql.withTransaction,
        persistence
      )

      return { mint, issue, list, revoke }
    })
  )
}
