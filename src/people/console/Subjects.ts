/** What a notification is about: the id that it carries as `r` (protocol.md, Mobile) names a task, Bridge, sign-in or phone. */
import { Context, Effect, Layer, type Option } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Store from "./SubjectStore.ts"

export class Subjects extends Context.Service<
  Subjects,
  {
    /** In one project, or in all. */
    readonly find: (
      id: string,
      project_id: string | undefined
    ) => Effect.Effect<Option.Option<Store.Subject>, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/console/Subjects") {
  static readonly layer = Layer.effect(
    Subjects,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      return { find: Effect.fn("Subjects.find")(store.find, persistence) }
    })
  )
}
