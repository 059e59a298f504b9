/** The operator's commands for Bridges: list them, show one (spec 2.4), and revoke one in an emergency (spec 3.1). */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import * as Store from "./BridgeStore.ts"
import { type OperatorRefusal, refuseOperator as refuse } from "./Errors.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { after } from "../../wire/Instant.ts"
import type { Role } from "../../wire/Scopes.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { Settings } from "../../platform/settings/Settings.ts"

export type Bridge = typeof Store.Bridge.Type
export type Watched = typeof Store.Watched.Type
export type Token = typeof Store.Token.Type
type Unavailable = OperatorRefusal<"bridge_persistence_error">

/** A Bridge rotates between 60 and 80 % of its token's life (spec 3.3). */
const rotatedBy = 0.8

export class Bridges extends Context.Service<
  Bridges,
  {
    /** By name. */
    readonly list: (
      project_id: string,
      page: Page,
      status?: Bridge["status"]
    ) => Effect.Effect<ReadonlyArray<Bridge>, Unavailable | OperatorRefusal<"project_not_found">>
    /** The first to end first, those without a valid token before; then pending and revoked ones. */
    readonly listByEnd: (project_id: string, page: Page) => Effect.Effect<ReadonlyArray<Watched>, Unavailable>
    /** Active Bridges of all projects that are not disabled, by end; `after` is an identity. */
    readonly listAllByEnd: (page: Page) => Effect.Effect<ReadonlyArray<Watched>, Unavailable>
    /** Active Bridges that should have rotated by now: in the last fifth of their token's life, or without a token. */
    readonly listEnding: (project_id: string, limit: number) => Effect.Effect<ReadonlyArray<Watched>, Unavailable>
    /** One Bridge with its last 20 tokens, newest first. */
    readonly show: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<
      Bridge & { readonly tokens: ReadonlyArray<Token> },
      Unavailable | OperatorRefusal<"bridge_not_found">
    >
    /** Ends identity, tokens, successor and open challenges in one transaction, for good. Can be repeated. */
    readonly revoke: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<{ readonly revoked_at: Date }, Unavailable | OperatorRefusal<"bridge_not_found">>
    /** Accepts the Bridge's token without a DPoP proof again, until it sends one. Can be repeated. */
    readonly liftDpop: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<{ readonly was_required: boolean }, Unavailable | OperatorRefusal<"bridge_not_found">>
    /** Asks an active Bridge to replace its key; the answer of `tokens/self` says so until it has. Can be repeated. */
    readonly requireKeyRotation: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<
      { readonly required_since: Date },
      Unavailable | OperatorRefusal<"bridge_not_found" | "bridge_not_active">
    >
    /**
     * Lets an active Bridge reach its project's memory and tasks with its key, in this role. Another role replaces the one
     * before, and ends the tokens of it. Can be repeated.
     */
    readonly grantAccess: (
      project_id: string,
      bridge_id: string,
      role: Role
    ) => Effect.Effect<
      { readonly role: Role; readonly granted_at: Date },
      Unavailable | OperatorRefusal<"bridge_not_found" | "bridge_not_active">
    >
    /** Ends that access with the next request. Can be repeated. */
    readonly withdrawAccess: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<{ readonly was_granted: boolean }, Unavailable | OperatorRefusal<"bridge_not_found">>
  }
>()("service/bridges/Bridges") {
  static readonly layer = Layer.effect(
    Bridges,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const outbox = yield* Outbox
      const { bridge } = yield* Settings
      const store = Store.make(sql)

      const list = Effect.fn("Bridges.list")(function* (project_id: string, page: Page, status?: Bridge["status"]) {
        if (!(yield* projectExists(sql, project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, page, status)
      }, persistence)

      const listEnding = Effect.fn("Bridges.listEnding")(function* (project_id: string, limit: number) {
        const now = yield* clock.now
        const nearly = after(now, Duration.times(bridge.tokenTtl, 1 - rotatedBy))
        return yield* store.listEnding(project_id, rotatedBy, now, nearly, limit)
      }, persistence)

      const show = Effect.fn("Bridges.show")(function* (project_id: string, bridge_id: string) {
        const bridge = yield* store.find(project_id, bridge_id)
        if (Option.isNone(bridge)) return yield* refuse("bridge_not_found")
        return { ...bridge.value, tokens: yield* store.listTokens(project_id, bridge_id) }
      }, persistence)

      const revoke = Effect.fn("Bridges.revoke")(
        function* (project_id: string, bridge_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revokeIdentity(project_id, bridge_id, now)
          if (Option.isNone(revoked)) return yield* refuse("bridge_not_found")
          const { first, identity_id, revoked_at } = revoked.value
          yield* store.endCredentials(identity_id, now)
          if (first) {
            const event_id = yield* uuidAt(now)
            yield* outbox.enqueue(now, { kind: "bridge.revoked", event_id, project_id, about: identity_id })
            yield* audit.done(now, {
              action: "bridge.revoked",
              project_id,
              actor: yield* CurrentOperator,
              subject: { bridge_id }
            })
          }
          return { revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      const liftDpop = Effect.fn("Bridges.liftDpop")(
        function* (project_id: string, bridge_id: string) {
          const now = yield* clock.now
          const lifted = yield* store.liftDpop(project_id, bridge_id)
          if (Option.isNone(lifted)) return yield* refuse("bridge_not_found")
          if (lifted.value.was_required) {
            const actor = yield* CurrentOperator
            yield* audit.done(now, { action: "bridge.dpop_lifted", project_id, actor, subject: { bridge_id } })
          }
          return lifted.value
        },
        sql.withTransaction,
        persistence
      )

      const requireKeyRotation = Effect.fn("Bridges.requireKeyRotation")(
        function* (project_id: string, bridge_id: string) {
          const now = yield* clock.now
          const required = yield* store.requireKeyRotation(project_id, bridge_id, now)
          if (Option.isNone(required)) return yield* refuse("bridge_not_found")
          const { first, required_since } = required.value
          if (required_since === null) return yield* refuse("bridge_not_active")
          if (first) {
            const actor = yield* CurrentOperator
            const subject = { bridge_id }
            yield* audit.done(now, { action: "bridge.key_rotation_required", project_id, actor, subject })
          }
          return { required_since }
        },
        sql.withTransaction,
        persistence
      )

      const grantAccess = Effect.fn("Bridges.grantAccess")(
        function* (project_id: string, bridge_id: string, role: Role) {
          const now = yield* clock.now
          const set = yield* store.setAccess(project_id, bridge_id, role, now)
          if (Option.isNone(set)) return yield* refuse("bridge_not_found")
          const { before, granted_at, status } = set.value
          if (status !== "active" || granted_at === null) return yield* refuse("bridge_not_active")
          if (before !== role) {
            const actor = yield* CurrentOperator
            yield* audit.done(now, {
              action: "bridge.access_granted",
              project_id,
              actor,
              subject: { bridge_id, role }
            })
          }
          return { role, granted_at }
        },
        sql.withTransaction,
        persistence
      )

      const withdrawAccess = Effect.fn("Bridges.withdrawAccess")(
        function* (project_id: string, bridge_id: string) {
          const now = yield* clock.now
          const set = yield* store.setAccess(project_id, bridge_id, null, now)
          if (Option.isNone(set)) return yield* refuse("bridge_not_found")
          const was_granted = set.value.before !== null
          if (was_granted) {
            const actor = yield* CurrentOperator
            yield* audit.done(now, { action: "bridge.access_withdrawn", project_id, actor, subject: { bridge_id } })
          }
          return { was_granted }
        },
        sql.withTransaction,
        persistence
      )

      return {
        list,
        listByEnd: Effect.fn("Bridges.listByEnd")(store.listByEnd, persistence),
        listAllByEnd: Effect.fn("Bridges.listAllByEnd")(store.listAllByEnd, persistence),
        listEnding,
        show,
        revoke,
        liftDpop,
        requireKeyRotation,
        grantAccess,
        withdrawAccess
      }
    })
  )
}
