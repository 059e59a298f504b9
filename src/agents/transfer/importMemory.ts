/**
 * Imports what was kept elsewhere (decisions.md, What was kept elsewhere). Runs in a transaction of the caller, which every refusal rolls back.
 *
 * 1. Each item is compared with what earlier imports made of it: a task, or the last entry of a succession.
 * 2. What is new is inserted in batches.
 * 3. A changed entry is superseded; a changed task is updated, as task_update would.
 * 4. What the project itself has changed since is kept, and the report says so.
 * 5. Entries of parts that a file no longer has are archived. A file that is gone changes nothing.
 */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { done, expect } from "../../platform/metrics/Progress.ts"
import { traceAt } from "../../platform/audit/Audit.ts"
import { operator } from "../../platform/settings/Operator.ts"
import { refuseFull } from "../continuity/Budget.ts"
import { refuse } from "../continuity/Errors.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { importEntries } from "./importEntries.ts"
import { importTasks } from "./importTasks.ts"
import type { Format } from "./sources/formats.ts"
import type { Item, Source } from "./sources/Item.ts"
import * as Store from "./TransferStore.ts"

/** What becomes of an item. `kept`: it differs, but the project has changed its own since. */
type Done = "added" | "superseded" | "updated" | "archived" | "unchanged" | "kept" | "skipped"

/** A line of the report. `id`: of the entry or task that now stands for the item. */
export interface Line {
  readonly done: Done
  readonly is: "entry" | "task" | null
  readonly id: string | null
  readonly file: string
  readonly line: number | null
  readonly title: string
  readonly why: string | null
}

export interface Report {
  readonly counts: Readonly<Record<string, number>>
  readonly lines: ReadonlyArray<Line>
}

/** What the parts of an import share. */
export interface Run {
  readonly project_id: string
  readonly limits: Readonly<Record<string, number>>
  readonly maxima: ReturnType<typeof storedMaxima>
  readonly now: Date
  /** Who writes: the operator, and that it is an import of this format. */
  readonly actor: string
  readonly isOwn: (actor: string | null | undefined) => boolean
  readonly sql: SqlClient.SqlClient
  readonly store: ReturnType<typeof Store.make>
  /** What the project's usage grows by at the end. */
  readonly added: { stored_bytes: number; index_bytes: number; entries: number; tasks: number; notes: number }
  /** New entries, which are counted after that. */
  readonly indexed: Array<string>
  readonly lines: Array<Line>
  readonly report: (done: Done, item: Item, id?: string, why?: string) => void
  readonly progress: Effect.Effect<void>
}

export const importMemory = Effect.fnUntraced(function* (
  project_id: string,
  now: Date,
  format: Format,
  { items, skipped }: Source
) {
  const sql = yield* SqlClient.SqlClient
  const store = Store.make(sql)
  const project = yield* store.findLimits(project_id)
  if (Option.isNone(project)) return yield* refuse("project_not_found")
  const { limits } = project.value
  const maxima = storedMaxima(limits)
  const suffix = ` (import from ${format})`
  const lines: Array<Line> = skipped.map(({ place, why }) => ({
    done: "skipped",
    is: null,
    id: null,
    ...place,
    title: "",
    why
  }))
  let reported = lines.length
  yield* expect(Effect.succeed(items.length))
  const run: Run = {
    project_id,
    limits,
    maxima,
    now,
    actor: `${operator}${suffix}`,
    isOwn: (actor) => actor?.endsWith(suffix) === true,
    sql,
    store,
    added: { stored_bytes: 0, index_bytes: 0, entries: 0, tasks: 0, notes: 0 },
    indexed: [],
    lines,
    report: (done, { id: first, is, place, title }, id = first, why) =>
      void lines.push({ done, is, id, ...place, title, why: why ?? null }),
    progress: Effect.suspend(() => {
      const more = lines.length - reported
      reported = lines.length
      return done(more)
    })
  }
  yield* store.deferReferences
  // Tasks first: their dependencies lock tasks, which every writer does before it locks the project's usage.
  yield* importTasks(
    run,
    items.filter((item) => item.is === "task")
  )
  yield* importEntries(
    run,
    items.filter((item) => item.is === "entry")
  )

  const { notes, ...usage } = run.added
  const charged = yield* store.chargeImport(project_id, usage, maxima)
  if (charged.length === 0) return yield* refuseFull(sql, { project_id, limits }, usage)
  yield* MemoryStore.make(sql).count(project_id, run.indexed)
  const { kept, skipped: left, unchanged, ...written } = countsOf(lines)
  const counts = { ...written, notes_added: notes, unchanged, kept, skipped: left }
  if (Object.values({ ...written, notes }).some((count) => count > 0)) {
    yield* store.audited(project_id, "memory.imported", operator, { from: format, ...counts }, yield* traceAt(now))
  }
  return { counts, lines: lines.toSorted(byPlace) }
})

const byPlace = (a: Line, b: Line) => (a.file < b.file ? -1 : a.file > b.file ? 1 : (a.line ?? 0) - (b.line ?? 0))

const countsOf = (lines: ReadonlyArray<Line>) => {
  const of = (done: Done, is?: "entry" | "task") =>
    lines.filter((line) => line.done === done && (is === undefined || line.is === is)).length
  return {
    entries_added: of("added", "entry"),
    entries_superseded: of("superseded"),
    entries_archived: of("archived"),
    tasks_added: of("added", "task"),
    tasks_updated: of("updated"),
    unchanged: of("unchanged"),
    kept: of("kept"),
    skipped: of("skipped")
  }
}
