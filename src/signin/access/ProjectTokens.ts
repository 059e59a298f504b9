/**
 * The operator's commands for project tokens: issue, list, revoke
 * (decisions.md, What a static token of a project looks like).
 *
 * The command writes the raw token to a file once; the database stores only its hash.
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
import type { Page } from "../../platform/sql/Page.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"

export interface NewProjectToken {
  readonly project_id: string
  /** Tells people which token it is. */
  readonly label?: string | undefined
  readonly role: Role
  /** Empty: every scope of the role. */
  readonly scopes: ReadonlyArray<Scope>
  readonly ttl: Option.Option<Duration.Duration>
  /** False: the token is for agents only and opens neither the console nor the consent page. Default: true. */
  readonly opens_console?: boolean
}

/** What the service needs to know of a token: never the token itself. */
export interface Minted {
  readonly token_id: string
  readonly token_hash: Uint8Array
}

export interface Secret extends Minted {
  readonly token: Redacted.Redacted<string>
}

export type Issued = typeof Store.Issued.Type
export type ProjectToken = typeof Store.ProjectToken.Type
type Unavailable = ProjectTokenRefusal<"bridge_persistence_error">

export class ProjectTokens extends Context.Service<
  ProjectTokens,
  {
    /** A new token and its id, not stored yet. */
    readonly mint: Effect.Effect<Secret, Unavailable>
    /** `secret` is from `mint`; the caller has written it to a file before. Idempotent for the same secret. */
    readonly issue: (
      order: NewProjectToken,
      secret: Minted
    ) => Effect.Effect<
      Issued,
      Unavailable | ProjectTokenRefusal<"project_not_found" | "project_disabled" | "scope_not_allowed">
    >
    /** In the order of creation. */
    readonly list: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<ProjectToken>, Unavailable | ProjectTokenRefusal<"project_not_found">>
    /**
     * What people call the actors of audit rows and provenance: a token's label, an app's name. By actor; of one project,
     * or of all.
     */
    readonly names: (
      project_id: string | undefined,
      actors: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyMap<string, string>, Unavailable>
    /** Also ends the token's OAuth grants, whose ids it returns, and its passkeys. Idempotent. */
    readonly revoke: (
      token_id: string
    ) => Effect.Effect<
      { readonly project_id: string; readonly revoked_at: Date; readonly grant_ids: ReadonlyArray<string> },
      Unavailable | ProjectTokenRefusal<"project_token_not_found">
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
        const token = yield* Tokens.mint("spt")
        return { token_id: yield* uuidAt(yield* clock.now), token, token_hash: Tokens.hash(token) }
      })

      const issue = Effect.fn("ProjectTokens.issue")(
        function* (order: NewProjectToken, { token_hash, token_id }: Minted) {
          const now = yield* clock.now
          return yield* untilSettled(store.findIssued(token_hash), insert(order, { token_id, token_hash }, now))
        },
        sql.withTransaction,
        persistence
      )

      /** None: an earlier attempt with the same token, whose response was lost, has just committed. */
      const insert = Effect.fnUntraced(function* (
        { label, opens_console = true, project_id, role, scopes, ttl }: NewProjectToken,
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
            label: label ?? null,
            role,
            opens_console,
            scopes: expanded(scopes.length === 0 ? allowed : scopes),
            expires_at: Option.getOrNull(Option.map(ttl, (duration) => after(now, duration)))
          },
          now
        )
        if (Option.isNone(issued)) return issued
        yield* audit.done(now, {
          action: "project_token.issued",
          project_id,
          actor: yield* CurrentOperator,
          subject: { project_token_id: token.token_id }
        })
        return issued
      })

      const list = Effect.fn("ProjectTokens.list")(function* (project_id: string, page: Page) {
        if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, page, yield* clock.now)
      }, persistence)

      const names = Effect.fn("ProjectTokens.names")(function* (
        project_id: string | undefined,
        actors: ReadonlyArray<string>
      ) {
        const found = yield* store.names(project_id, [...new Set(actors)])
        return new Map(found.map(({ actor, name }) => [actor, name]))
      }, persistence)

      const revoke = Effect.fn("ProjectTokens.revoke")(
        function* (token_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revoke(token_id, now)
          if (Option.isNone(revoked)) return yield* refuse("project_token_not_found")
          const { first, project_id, revoked_at } = revoked.value
          const grants = yield* store.endGrants(token_id, now)
          yield* store.endKeys(token_id, now)
          if (first) {
            yield* audit.done(now, {
              action: "project_token.revoked",
              project_id,
              actor: yield* CurrentOperator,
              subject: { project_token_id: token_id }
            })
          }
          return { project_id, revoked_at, grant_ids: grants.map(({ grant_id }) => grant_id) }
        },
        sql.withTransaction,
        persistence
      )

      return { mint, issue, list, names, revoke }
    })
  )
}
