/** What notifications and audit events are about. The id that a notification carries as `r` (protocol.md, Mobile) names a task, Bridge, sign-in or phone. */
import { Context, Effect, Layer, type Option } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import * as Store from "./SubjectStore.ts"

export class Subjects extends Context.Service<
  Subjects,
  {
    /** In one project, or in all. */
    readonly find: (
      id: string,
      project_id: string | undefined
    ) => Effect.Effect<Option.Option<Store.Subject>, SharedRefusal<"bridge_persistence_error">>
    /** What the tasks and entries of memory among these are called, by `project_id/id`. */
    readonly titles: (
      all: ReadonlyArray<readonly [project_id: string, id: string]>
    ) => Effect.Effect<ReadonlyMap<string, string>, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/console/Subjects") {
  static readonly layer = Layer.effect(
    Subjects,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const titles = Effect.fn("Subjects.titles")(function* (
        all: ReadonlyArray<readonly [project_id: string, id: string]>
      ) {
        const found = yield* store.titles(
          all.map(([project_id]) => project_id),
          all.map(([, id]) => id)
        )
        return new Map(found.map(({ id, project_id, title }) => [`${project_id}/${id}`, title]))
      }, persistence)
      return { find: Effect.fn("Subjects.find")(store.find, persistence), titles }
    })
  )
}
