/**
 * A project's memory, tasks and receipts as one file, and back: nobody is locked in.
 *
 * Ids are kept, so that an import may be repeated and a file imported into another project or service. What the project has
 * already stays as it is. An import is one transaction: a file that is wrong anywhere changes nothing.
 */
import { Context, Effect, Layer, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { Database } from "../../platform/database/Database.ts"
import { longPersistence } from "../../platform/database/Persistence.ts"
import { edgeOfCycle } from "../tasks/Cycle.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import { textOf } from "../memory/Memory.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import * as File from "./TransferFile.ts"
import * as Rows from "./Shapes.ts"
import * as Store from "./TransferStore.ts"

export class Transfer extends Context.Service<
  Transfer,
  {
    /** Hands the file to `write` piece by piece, from one snapshot; `progress` after each piece. */
    readonly save: <E>(
      project_id: string,
      write: (text: string) => Effect.Effect<void, E>,
      progress: (counts: Rows.Counts) => Effect.Effect<void>
    ) => Effect.Effect<Rows.Counts, E | Unavailable | ContinuityRefusal<"project_not_found">>
    /** All or nothing. Answers how many rows were new. */
    readonly load: <E>(
      project_id: string,
      file: Stream.Stream<Uint8Array, E>,
      progress: (counts: Rows.Counts) => Effect.Effect<void>
    ) => Effect.Effect<Rows.Counts, E | Unavailable | ContinuityRefusal<"project_not_found" | "import_invalid">>
  }
>()("service/continuity/Transfer") {
  static readonly layer = Layer.effect(
    Transfer,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock

      const save = Effect.fn("Transfer.save")(function* <E>(
        project_id: string,
        write: (text: string) => Effect.Effect<void, E>,
        progress: (counts: Rows.Counts) => Effect.Effect<void>
      ) {
        const created_at = yield* clock.now
        const work = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const store = Store.make(sql)
          yield* store.snapshot
          const project = yield* store.findProject(project_id)
          if (Option.isNone(project)) return yield* refuse("project_not_found")
          yield* write(File.header(project.value, created_at))
          const counts = Rows.countsOf()
          for (const kind of Store.kinds) {
            let after = ""
            do {
              const page = yield* store.page(project_id, kind, after, pageSize)
              after = page.length === pageSize ? page.at(-1)!.key : ""
              counts[kind] += page.length
              if (page.length > 0) yield* write(page.map(({ line }) => `${line}\n`).join(""))
              yield* progress(counts)
            } while (after !== "")
          }
          yield* write(File.end(counts))
          return counts
        })
        return yield* dedicated(SqlClient.SqlClient.use((sql) => sql.withTransaction(work))).pipe(longPersistence)
      })

      const load = Effect.fn("Transfer.load")(function* <E>(
        project_id: string,
        file: Stream.Stream<Uint8Array, E>,
        progress: (counts: Rows.Counts) => Effect.Effect<void>
      ) {
        const now = yield* clock.now
        const work = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const store = Store.make(sql)
          const memory = MemoryStore.make(sql)
          if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
          yield* store.deferReferences
          const reader = File.reader()
          const counts = Rows.countsOf()
          /** The tasks that are new, and what each waits for. */
          const waits = new Map<string, Array<string>>()

          const add = Effect.fnUntraced(function* (batch: Rows.Batch) {
            yield* known(batch)
            // The dependencies of a task that was here already are those that it has here.
            const rows = batch.kind === "dependency" ? batch.rows.filter((row) => waits.has(row.task_id)) : batch.rows
            const added = new Set(
              (yield* store.add(project_id, batch.kind, JSON.stringify(rows))).map(({ key }) => key)
            )
            counts[batch.kind] += added.size
            if (batch.kind === "task") for (const key of added) waits.set(key, [])
            if (batch.kind === "dependency") {
              for (const { depends_on, task_id } of batch.rows) waits.get(task_id)?.push(depends_on)
            }
            if (batch.kind === "memory") {
              const active = batch.rows.filter((row) => row.active && added.has(row.id))
              yield* memory.post(
                project_id,
                active.map((row) => ({ id: row.id, ...textOf(row) }))
              )
            }
            yield* progress(counts)
          })

          const known = Effect.fnUntraced(function* (batch: Rows.Batch) {
            if (batch.kind !== "dependency" && batch.kind !== "receipt") return
            const named =
              batch.kind === "dependency"
                ? batch.rows.map((row) => [row.task_id, row.depends_on])
                : batch.rows.map((row) => [row.task_id])
            const unknown = new Set((yield* store.unknownTasks(project_id, named.flat())).map(({ id }) => id))
            const at = named.findIndex((ids) => ids.some((id) => unknown.has(id)))
            if (at !== -1) return yield* reader.refer(batch.kind, batch.rows[at]!, "The project has no such task")
          })

          let batch: Rows.Batch | undefined
          const flush = Effect.suspend(() => {
            const full = batch
            batch = undefined
            return full === undefined ? Effect.void : add(full)
          })
          const take = Effect.fnUntraced(function* (line: string | undefined) {
            const read = yield* reader.read(line)
            if (Option.isNone(read)) return
            const { kind, row } = read.value
            if (batch !== undefined && (batch.kind !== kind || batch.rows.length >= pageSize)) yield* flush
            const open: Rows.Batch = (batch ??= { kind, rows: [] })
            ;(open.rows as Array<Rows.Row>).push(row)
          })
          yield* Stream.runForEach(File.lines(file), take)
          yield* flush
          yield* reader.finish
          const [dangling] = yield* store.dangling(project_id)
          if (dangling !== undefined) {
            return yield* reader.refer("memory", dangling, "It refers to what neither file nor project has")
          }
          const circle = edgeOfCycle(waits)
          if (circle !== undefined) {
            const [task_id, depends_on] = circle
            return yield* reader.refer("dependency", { task_id, depends_on }, "The task would wait for itself")
          }
          const added = Object.values(counts).some((rows) => rows > 0)
          if (added) yield* store.audited(project_id, counts, yield* traceAt(now))
          return counts
        })
        return yield* dedicated(SqlClient.SqlClient.use((sql) => sql.withTransaction(work))).pipe(longPersistence)
      })

      return { save, load }
    })
  )
}

const pageSize = 500
