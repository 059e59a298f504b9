/**
 * Export of a project to a file or a folder, and import from it or from other programs (decisions.md, Export and import).
 *
 * Ids are kept, so an import can be repeated, and a file can be imported into another project or service. Rows that the
 * project already has stay unchanged. An import is one transaction: any error in the file leaves the project as it was.
 */
import { Context, Data, Effect, Layer, type Stream } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { Database } from "../../platform/database/Database.ts"
import { longPersistence } from "../../platform/database/Persistence.ts"
import type { ContinuityRefusal, Unavailable } from "../continuity/Errors.ts"
import { exportMarkdown, type MarkdownCounts } from "./exportMarkdown.ts"
import { exportProject } from "./exportProject.ts"
import { importMemory, type Report } from "./importMemory.ts"
import { importProject } from "./importProject.ts"
import type { Counts } from "./Shapes.ts"
import { type Import, readSource } from "./sources/readSource.ts"

class DryRun extends Data.TaggedError("DryRun")<{ readonly report: Report }> {}

export class Transfer extends Context.Service<
  Transfer,
  {
    /** Passes the file to `write` piece by piece, all from one database snapshot. */
    readonly save: <E>(
      project_id: string,
      write: (text: string) => Effect.Effect<void, E>
    ) => Effect.Effect<Counts, E | Unavailable | ContinuityRefusal<"project_not_found">>
    /** Imports all of the file or nothing. Returns how many rows were new. */
    readonly load: <E>(
      project_id: string,
      file: Stream.Stream<Uint8Array, E>
    ) => Effect.Effect<
      Counts,
      E | Unavailable | ContinuityRefusal<"project_not_found" | "import_invalid" | "limit_exceeded">
    >
    /** Passes the files of active entries and tasks to `write`, one by one, all from one database snapshot. */
    readonly saveMarkdown: <E>(
      project_id: string,
      write: (path: string, text: string) => Effect.Effect<void, E>
    ) => Effect.Effect<MarkdownCounts, E | Unavailable | ContinuityRefusal<"project_not_found">>
    /** Imports all of a source or nothing; with `dryRun` nothing, and the same report. */
    readonly bring: (
      project_id: string,
      source: Import,
      dryRun: boolean
    ) => Effect.Effect<
      Report,
      | Unavailable
      | ContinuityRefusal<
          "project_not_found" | "import_invalid" | "import_overtaken" | "limit_exceeded" | "task_graph_too_large"
        >
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
        write: (text: string) => Effect.Effect<void, E>
      ) {
        const now = yield* clock.now
        return yield* inTransaction(exportProject(project_id, now, write))
      })

      const load = Effect.fn("Transfer.load")(function* <E>(project_id: string, file: Stream.Stream<Uint8Array, E>) {
        const now = yield* clock.now
        return yield* inTransaction(importProject(project_id, now, file))
      })

      const saveMarkdown = Effect.fn("Transfer.saveMarkdown")(function* <E>(
        project_id: string,
        write: (path: string, text: string) => Effect.Effect<void, E>
      ) {
        return yield* inTransaction(exportMarkdown(project_id, write))
      })

      const bring = Effect.fn("Transfer.bring")(function* (project_id: string, source: Import, dryRun: boolean) {
        const now = yield* clock.now
        const read = yield* readSource(source)
        const work = importMemory(project_id, now, source.format, read)
        // A failure rolls the transaction back.
        const tried = dryRun ? Effect.flatMap(work, (report) => Effect.fail(new DryRun({ report }))) : work
        return yield* inTransaction(tried).pipe(
          Effect.catchIf(
            (error) => error instanceof DryRun,
            ({ report }) => Effect.succeed(report)
          )
        )
      })

      return { save, load, saveMarkdown, bring }
    })
  )
}
