/** What commands show of a project's content, and how they find an id by its beginning or a project by its name. */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { isPrefix, rangeOf } from "../../operator/IdPrefix.ts"
import { type ProjectRefusal, refuse } from "../../operator/projects/Errors.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Page } from "../../platform/sql/Page.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Store from "./ContentsStore.ts"

type Unavailable = SharedRefusal<"bridge_persistence_error">

export type Kind = Store.Kind

export interface Candidate {
  readonly id: string
  /** What people call it; null if it has no name. */
  readonly name: string | null
}

export class Contents extends Context.Service<
  Contents,
  {
    /** The tasks of a project, newest first. */
    readonly tasks: (
      project_id: string,
      page: Page,
      filter?: Store.TaskFilter
    ) => Effect.Effect<ReadonlyArray<typeof Store.TaskRow.Type>, Unavailable>
    /** The memory entries of a project, archived ones too, newest first. */
    readonly entries: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<typeof Store.EntryRow.Type>, Unavailable>
    /** A project with what it holds. */
    readonly project: (
      project_id: string
    ) => Effect.Effect<typeof Store.ProjectRow.Type, Unavailable | ProjectRefusal<"project_not_found">>
    /** At most six projects with this name, or whose id begins so. */
    readonly projectsNamed: (given: string) => Effect.Effect<ReadonlyArray<Candidate>, Unavailable>
    /** At most six ids of a kind that begin with `prefix`, a part of a UUID; in one project if it is known. */
    readonly idsFrom: (
      kind: Kind,
      prefix: string,
      project_id: string | undefined
    ) => Effect.Effect<ReadonlyArray<Candidate>, Unavailable>
  }
>()("service/operator/Contents") {
  static readonly layer = Layer.effect(
    Contents,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      return {
        tasks: Effect.fn("Contents.tasks")(store.tasks, persistence),
        entries: Effect.fn("Contents.entries")(store.entries, persistence),
        project: Effect.fn("Contents.project")(function* (project_id: string) {
          const found = yield* store.project(project_id)
          return Option.isSome(found) ? found.value : yield* refuse("project_not_found")
        }, persistence),
        projectsNamed: Effect.fn("Contents.projectsNamed")(
          (given: string) => store.projects(given, isPrefix(given) ? rangeOf(given) : undefined),
          persistence
        ),
        idsFrom: Effect.fn("Contents.idsFrom")(
          (kind: Store.Kind, prefix: string, project_id: string | undefined) =>
            store.ids(kind, rangeOf(prefix), project_id),
          persistence
        )
      }
    })
  )
}
