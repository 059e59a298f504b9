/**
 * Imports a file into a project. Runs in a transaction of the caller, which every refusal rolls back.
 *
 * 1. Rows of one kind are inserted in batches. A row whose id the project already has is skipped.
 * 2. Dependencies and receipts must name tasks that the project has by then.
 * 3. References between entries, which point in both directions, and cycles between tasks are checked at the end.
 */
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import { refuse } from "../continuity/Errors.ts"
import { textOf } from "../memory/Memory.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { edgeOfCycle } from "../tasks/Cycle.ts"
import { type Batch, type Counts, noRows, pageSize, type Row } from "./Shapes.ts"
import * as File from "./TransferFile.ts"
import * as Store from "./TransferStore.ts"

export const importProject = Effect.fnUntraced(function* <E>(
  project_id: string,
  now: Date,
  file: Stream.Stream<Uint8Array, E>,
  progress: (counts: Counts) => Effect.Effect<void>
) {
  const sql = yield* SqlClient.SqlClient
  const store = Store.make(sql)
  const memory = MemoryStore.make(sql)
  if (!(yield* projectExists(sql, project_id))) return yield* refuse("project_not_found")
  yield* store.deferReferences
  const reader = File.reader()
  const counts = noRows()
  /** The dependencies of each new task. */
  const waits = new Map<string, Array<string>>()

  const insert = Effect.fnUntraced(function* (batch: Batch) {
    yield* checkTasks(batch)
    // A task that the project already had keeps its dependencies.
    const rows = batch.kind === "dependency" ? batch.rows.filter((row) => waits.has(row.task_id)) : batch.rows
    const added = new Set((yield* store.add(project_id, batch.kind, JSON.stringify(rows))).map(({ key }) => key))
    counts[batch.kind] += added.size
    if (batch.kind === "task") for (const key of added) waits.set(key, [])
    if (batch.kind === "dependency") {
      for (const { depends_on, task_id } of batch.rows) waits.get(task_id)?.push(depends_on)
    }
    if (batch.kind === "memory") {
      const active = batch.rows.filter((row) => row.active && added.has(row.id))
      yield* memory.index(
        project_id,
        active.map((row) => ({ id: row.id, ...textOf(row) }))
      )
    }
    yield* progress(counts)
  })

  const checkTasks = Effect.fnUntraced(function* (batch: Batch) {
    if (batch.kind !== "dependency" && batch.kind !== "receipt") return
    const named =
      batch.kind === "dependency"
        ? batch.rows.map((row) => [row.task_id, row.depends_on])
        : batch.rows.map((row) => [row.task_id])
    const unknown = new Set((yield* store.unknownTasks(project_id, named.flat())).map(({ id }) => id))
    const at = named.findIndex((ids) => ids.some((id) => unknown.has(id)))
    if (at !== -1) return yield* reader.refuseRow(batch.kind, batch.rows[at]!, "The project has no such task")
  })

  let batch: Batch | undefined
  const flush = Effect.suspend(() => {
    const full = batch
    batch = undefined
    return full === undefined ? Effect.void : insert(full)
  })
  const take = Effect.fnUntraced(function* (line: string | undefined) {
    const read = yield* reader.read(line)
    if (Option.isNone(read)) return
    const { kind, row } = read.value
    if (batch !== undefined && (batch.kind !== kind || batch.rows.length >= pageSize)) yield* flush
    const open: Batch = (batch ??= { kind, rows: [] })
    ;(open.rows as Array<Row>).push(row)
  })
  yield* Stream.runForEach(File.lines(file), take)
  yield* flush
  yield* reader.finish

  const [dangling] = yield* store.dangling(project_id)
  if (dangling !== undefined) {
    return yield* reader.refuseRow("memory", dangling, "It refers to a row that neither the file nor the project has")
  }
  const edge = edgeOfCycle(waits)
  if (edge !== undefined) {
    const [task_id, depends_on] = edge
    return yield* reader.refuseRow("dependency", { task_id, depends_on }, "The task would wait for itself")
  }
  const added = Object.values(counts).some((rows) => rows > 0)
  if (added) yield* store.audited(project_id, counts, yield* traceAt(now))
  return counts
})
