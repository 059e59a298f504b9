/**
 * Export of a project's memory, tasks and receipts to one file, and import from it (decisions.md, Export and import).
 *
 * Ids are kept, so an import can be repeated, and a file can be imported into another project or service. Rows that the
 * project already has stay unchanged. An import is one transaction: any error in the file leaves the project as it was.
 */
import { Context, Effect, Layer, type Stream } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { Database } from "../../platform/database/Database.ts"
import { longPersistence } from "../../platform/database/Persistence.ts"
import type { ContinuityRefusal, Unavailable } from "../continuity/Errors.ts"
import { exportProject } from "./exportProject.ts"
import { importProject } from "./importProject.ts"
import type { Counts } from "./Shapes.ts"

export class Transfer extends Context.Service<
  Transfer,
  {
    /**
     * Passes the file to `write` piece by piece, all from one database snapshot. Calls `progress` after each page of
     * rows.
     */
    readonly save: <E>(
      project_id: string,
      write: (text: string) => Effect.Effect<void, E>,
      progress: (counts: Counts) => Effect.Effect<void>
    ) => Effect.Effect<Counts, E | Unavailable | ContinuityRefusal<"project_not_found">>
    /** Imports all of the file or nothing. Returns how many rows were new. */
    readonly load: <E>(
      project_id: string,
      file: Stream.Stream<Uint8Array, E>,
      progress: (counts: Counts) => Effect.Effect<void>
    ) => Effect.Effect<
      Counts,
      E | Unavailable | ContinuityRefusal<"project_not_found" | "import_invalid" | "limit_exceeded">
    >
  }
>()("service/transfer/Transfer") {
  static readonly layer = Layer.effect(
    Transfer,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock

      /** Uses a separate connection, because a large project takes longer than the limit of other operations. */
      const inTransaction = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
        dedicated(SqlClient.SqlClient.use((sql) => sql.withTransaction(work))).pipe(longPersistence)

      const save = Effect.fn("Transfer.save")(function* <E>(
        project_id: string,
        write: (text: string) => Effect.Effect<void, E>,
        progress: (counts: Counts) => Effect.Effect<void>
      ) {
        const now = yield* clock.now
        return yield* inTransaction(exportProject(project_id, now, write, progress))
      })

      const load = Effect.fn("Transfer.load")(function* <E>(
        project_id: string,
        file: Stream.Stream<Uint8Array, E>,
        progress: (counts: Counts) => Effect.Effect<void>
      ) {
        const now = yield* clock.now
        return yield* inTransaction(importProject(project_id, now, file, progress))
      })

      return { save, load }
    })
  )
}
