/**
 * Imports a file into a project. Runs in a transaction of the caller, which every refusal rolls back.
 *
 * 1. Rows of one kind are inserted in batches. A row whose id the project already has is skipped.
 * 2. Dependencies, receipts and notes must name tasks that the project has by then.
 * 3. References between entries, which point in both directions, and cycles between tasks are checked at the end.
 */
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { operator } from "../../platform/settings/Operator.ts"
import { refuse } from "../continuity/Errors.ts"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { refuseFull } from "../continuity/Budget.ts"
import * as Memory from "../memory/Memory.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { searchText } from "../memory/Search.ts"
import { edgeOfCycle } from "../tasks/dependencies/Cycle.ts"
import * as DependencyStore from "../tasks/dependencies/DependencyStore.ts"
import { storedBytesOfNote } from "../tasks/Notes.ts"
import * as Tasks from "../tasks/Tasks.ts"
import { type Batch, noRows, pageSize, type Row } from "./Shapes.ts"
import * as File from "./TransferFile.ts"
import * as Store from "./TransferStore.ts"

export const importProject = Effect.fnUntraced(function* <E>(
  project_id: string,
  now: Date,
  file: Stream.Stream<Uint8Array, E>
) {
  const sql = yield* SqlClient.SqlClient
  const store = Store.make(sql)
  const memory = MemoryStore.make(sql)
  const project = yield* store.findLimits(project_id)
  if (Option.isNone(project)) return yield* refuse("project_not_found")
  yield* store.deferReferences
  const reader = File.reader(now)
  const counts = noRows()
  const added = { stored_bytes: 0, index_bytes: 0 }
  const indexed: Array<string> = []
  /** The dependencies of each new task. */
  const waits = new Map<string, Array<string>>()

  const insert = Effect.fnUntraced(function* (batch: Batch) {
    yield* checkTasks(batch)
    // A task that the project already had keeps its dependencies.
    const links = batch.kind === "dependency" ? batch.rows.filter((row) => waits.has(row.task_id)) : []
    const rows = batch.kind === "dependency" ? links : batch.rows
    // Inserting them locks the tasks that are waited for. Those that the project already had are locked after its graph.
    if (links.some(({ depends_on }) => !waits.has(depends_on))) {
      yield* DependencyStore.make(sql).lockGraph(project_id)
    }
    const keys = new Set((yield* store.add(project_id, batch.kind, JSON.stringify(rows))).map(({ key }) => key))
    counts[batch.kind] += keys.size
    added.stored_bytes += storedBytesOf(batch, keys)
    if (batch.kind === "task") for (const key of keys) waits.set(key, [])
    for (const { depends_on, task_id } of links) waits.get(task_id)?.push(depends_on)
    if (batch.kind === "memory") {
      const active = batch.rows.filter((row) => row.active && keys.has(row.id))
      const posted = yield* memory.index(
        project_id,
        active.map((row) => ({ id: row.id, ...searchText(Memory.textOf(row)) }))
      )
      added.index_bytes += Option.getOrThrow(posted).bytes
      indexed.push(...active.map(({ id }) => id))
    }
  })

  const checkTasks = Effect.fnUntraced(function* (batch: Batch) {
    if (batch.kind === "memory" || batch.kind === "task") return
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
    return yield* reader.refuseRow(
      dangling.kind,
      dangling,
      "It refers to a row that neither the file nor the project has"
    )
  }
  const edge = edgeOfCycle(waits)
  if (edge !== undefined) {
    const [task_id, depends_on] = edge
    return yield* reader.refuseRow("dependency", { task_id, depends_on }, "The task would wait for itself")
  }
  // Last, because the row of the project's usage stays locked until the commit.
  const { limits } = project.value
  const usage = { ...added, entries: counts.memory, tasks: counts.task }
  const charged = yield* store.chargeImport(project_id, { ...usage, receipts: counts.receipt }, storedMaxima(limits))
  if (charged.length === 0) return yield* refuseFull(sql, { project_id, limits }, usage)
  yield* memory.count(project_id, indexed)
  if (Object.values(counts).some((rows) => rows > 0)) {
    yield* store.audited(project_id, "project.imported", operator, counts, yield* traceAt(now))
  }
  return counts
})

const storedBytesOf = (batch: Batch, added: ReadonlySet<string>): number => {
  switch (batch.kind) {
    case "memory":
      return sum(batch.rows.filter(({ id }) => added.has(id)).map(Memory.storedBytes))
    case "task":
      return sum(batch.rows.filter(({ id }) => added.has(id)).map(Tasks.storedBytes))
    case "receipt":
      return sum(batch.rows.filter(({ id }) => added.has(id)).map(Tasks.storedBytesOfReceipt))
    case "note":
      return sum(batch.rows.filter(({ id }) => added.has(id)).map(storedBytesOfNote))
    case "dependency":
      return 0
  }
}

const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((a, b) => a + b, 0)
