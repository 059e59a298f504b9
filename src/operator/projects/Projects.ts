/** Projects and their approved account references (spec 1.5, 2.2). Only the operator changes them, never an agent. */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { expireChallenges, lockReserved } from "../../platform/sql/OpenChallenges.ts"
import { type ProjectRefusal, refuse } from "./Errors.ts"
import * as Store from "./ProjectStore.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"

type Project = typeof Store.Project.Type
type AccountReference = typeof Store.AccountReference.Type
type Unavailable = ProjectRefusal<"bridge_persistence_error">
type NoProject = ProjectRefusal<"project_not_found" | "bridge_persistence_error">

export class Projects extends Context.Service<
  Projects,
  {
    /** With an id, a project that has it already is left as it is and returned, so that this may be repeated. */
    readonly create: (
      name: string,
      id?: string
    ) => Effect.Effect<{ readonly project_id: string; readonly name: string }, Unavailable>
    /** In the order of creation. */
    readonly list: (page: Page) => Effect.Effect<ReadonlyArray<Project>, Unavailable>
    /** By id; unknown ids are left out. */
    readonly names: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, string>, Unavailable>
    readonly find: (project_id: string) => Effect.Effect<Project, NoProject>
    /** A disabled project refuses every request at once; nothing is deleted. `enable` undoes it, and calls off a deletion. */
    readonly disable: (project_id: string) => Effect.Effect<Project, NoProject>
    readonly enable: (
      project_id: string
    ) => Effect.Effect<Project, NoProject | ProjectRefusal<"project_deletion_begun">>
    /** May be repeated; also approves a withdrawn reference again. Without a label the reference keeps its old one. */
    readonly approveReference: (
      project_id: string,
      reference: string,
      label: Option.Option<string>
    ) => Effect.Effect<AccountReference, NoProject>
    /** By name. */
    readonly listReferences: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<AccountReference>, NoProject>
    /**
     * Also revokes the credentials that carry the reference and have not enrolled a Bridge, with their open challenges,
     * and returns their ids. Identities stay.
     */
    readonly withdrawReference: (
      project_id: string,
      reference: string
    ) => Effect.Effect<ReadonlyArray<string>, NoProject | ProjectRefusal<"account_reference_not_found">>
  }
>()("service/projects/Projects") {
  static readonly layer = Layer.effect(
    Projects,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const done = (at: Date, action: string, project_id: string, subject: Record<string, string> = {}) =>
        Effect.flatMap(CurrentOperator, (actor) =>
          audit.done(at, { action, project_id, actor, subject: { project_id, ...subject } })
        )

      const existing = (project_id: string) =>
        Effect.flatMap(
          store.find(project_id),
          Option.match({ onNone: () => refuse("project_not_found"), onSome: Effect.succeed })
        )

      const create = Effect.fn("Projects.create")(
        function* (name: string, id?: string) {
          const now = yield* clock.now
          const project_id = id ?? (yield* uuidAt(now))
          const inserted = yield* store.insert(project_id, name, now)
          if (Option.isNone(inserted))
            return { project_id, name: Option.getOrThrow(yield* store.find(project_id)).name }
          yield* done(now, "project.created", project_id)
          return { project_id, name }
        },
        sql.withTransaction,
        persistence
      )

      const setDisabled = Effect.fnUntraced(function* (project_id: string, disabled: boolean) {
        const now = yield* clock.now
        const found = yield* store.setDisabled(project_id, disabled ? now : null)
        if (Option.isNone(found)) return yield* refuse("project_not_found")
        const { begun, changed, ...project } = found.value
        if (changed) yield* done(now, disabled ? "project.disabled" : "project.enabled", project_id)
        return { begun, project }
      })

      const disable = Effect.fn("Projects.disable")(
        function* (project_id: string) {
          return (yield* setDisabled(project_id, true)).project
        },
        sql.withTransaction,
        persistence
      )

      const enable = Effect.fn("Projects.enable")(
        function* (project_id: string) {
          const { begun, project } = yield* setDisabled(project_id, false)
          return begun ? yield* refuse("project_deletion_begun") : project
        },
        sql.withTransaction,
        persistence
      )

      const approveReference = Effect.fn("Projects.approveReference")(
        function* (project_id: string, reference: string, label: Option.Option<string>) {
          const now = yield* clock.now
          yield* existing(project_id)
          const approved = yield* store.approve(project_id, reference, Option.getOrNull(label), now)
          if (approved.length > 0) yield* done(now, "account_reference.approved", project_id, { reference })
          return Option.getOrThrow(yield* store.findReference(project_id, reference))
        },
        sql.withTransaction,
        persistence
      )

      const listReferences = Effect.fn("Projects.listReferences")(function* (project_id: string, page: Page) {
        yield* existing(project_id)
        return yield* store.listReferences(project_id, page)
      }, persistence)

      const withdrawReference = Effect.fn("Projects.withdrawReference")(
        function* (project_id: string, reference: string) {
          const now = yield* clock.now
          yield* existing(project_id)
          const withdrawn = yield* store.withdraw(project_id, reference, now)
          if (Option.isNone(withdrawn)) return yield* refuse("account_reference_not_found")
          const revoked = yield* revokeUnproved(project_id, reference, now)
          if (withdrawn.value.first) yield* done(now, "account_reference.withdrawn", project_id, { reference })
          return revoked
        },
        sql.withTransaction,
        persistence
      )

      /** The second look at the proofs is after the locks, so that no credential is both revoked and used. */
      const revokeUnproved = Effect.fnUntraced(function* (project_id: string, reference: string, now: Date) {
        const candidates = idsOf(yield* store.lockUnproved(project_id, reference))
        yield* lockReserved(sql, candidates)
        const revoked = idsOf(yield* store.revokeUnproved(candidates, now))
        yield* expireChallenges(sql, revoked, now)
        return revoked
      })

      return {
        create,
        list: Effect.fn("Projects.list")(store.list, persistence),
        names: Effect.fn("Projects.names")(function* (ids: ReadonlyArray<string>) {
          const found = yield* store.names([...new Set(ids)])
          return new Map(found.map(({ name, project_id }) => [project_id, name]))
        }, persistence),
        find: Effect.fn("Projects.find")(existing, persistence),
        disable,
        enable,
        approveReference,
        listReferences,
        withdrawReference
      }
    })
  )
}

const idsOf = (rows: ReadonlyArray<{ readonly credential_id: string }>) =>
  rows.map(({ credential_id }) => credential_id)
