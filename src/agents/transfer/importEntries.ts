/** The entries of an import: added, superseded, archived, or left as they are. */
import { Effect, Option } from "effect"
import { traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { refuseFull } from "../continuity/Budget.ts"
import { refuse } from "../continuity/Errors.ts"
import * as Memory from "../memory/Memory.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { everIndexed, searchText } from "../memory/Search.ts"
import { checkText } from "./checkText.ts"
import type { Run } from "./importMemory.ts"
import { pagesOf, sameList, sameText } from "./items.ts"
import { type EntryItem, unitOf } from "./sources/Item.ts"
import type { LastEntry } from "./TransferStore.ts"

export const importEntries = Effect.fnUntraced(function* (run: Run, items: ReadonlyArray<EntryItem>) {
  const { project_id, store } = run
  const memory = MemoryStore.make(run.sql)
  const lastOf = new Map<string, LastEntry>()
  for (const page of pagesOf(items)) {
    const found = yield* store.lastEntries(
      project_id,
      page.map(({ id }) => id)
    )
    for (const last of found) lastOf.set(last.first, last)
  }
  const units = new Set(items.map(({ source }) => unitOf(source)))
  const current = new Set([...lastOf.values()].map(({ id }) => id))
  const gone = (yield* store.importedEntries(project_id)).filter(
    ({ id, source }) => units.has(unitOf(source)) && !current.has(id)
  )

  for (const page of pagesOf(items.filter(({ id }) => !lastOf.has(id)))) yield* add(run, memory, page)
  for (const item of items) {
    const last = lastOf.get(item.id)
    if (last === undefined) continue
    if (isSame(last, item)) run.report("unchanged", item, last.id)
    else if (!last.active) run.report("kept", item, last.id, "The entry was archived")
    else if (last.id === item.id || last.source === item.source) yield* supersede(run, memory, last, item)
    else run.report("kept", item, last.id, "The project has superseded it since")
  }
  for (const { id, source } of gone) yield* archive(run, memory, id, source)
})

const add = Effect.fnUntraced(function* (run: Run, memory: Memories, items: ReadonlyArray<EntryItem>) {
  const { added, now, project_id, store } = run
  for (const item of items) yield* checkText(item, now)
  const rows = items.map((item) => rowOf(run, item))
  const keys = yield* store.add(project_id, "memory", JSON.stringify(rows))
  if (keys.length < rows.length) return yield* refuse("import_overtaken")
  const posted = yield* memory.index(
    project_id,
    rows.map((row) => ({ id: row.id, ...searchText(Memory.textOf(row)) }))
  )
  added.index_bytes += Option.getOrThrow(posted).bytes
  run.indexed.push(...rows.map(({ id }) => id))
  for (const item of items) {
    added.entries += 1
    added.stored_bytes += Memory.storedBytes(item)
    run.report("added", item)
  }
  yield* run.progress
})

const supersede = Effect.fnUntraced(function* (run: Run, memory: Memories, last: LastEntry, item: EntryItem) {
  const { limits, maxima, now, project_id, sql } = run
  yield* checkText(item, now)
  const row = { ...rowOf(run, item), id: yield* uuidAt(now), supersedes: last.id }
  const text = searchText(Memory.textOf(row))
  const stored_bytes = Memory.storedBytes(row)
  const written = yield* memory.insert(project_id, row, text, now, yield* traceAt(now), stored_bytes, maxima, false)
  if (Option.isNone(written)) {
    const found = yield* memory.find(project_id, last.id)
    if (Option.isNone(found) || !found.value.active) return yield* refuse("import_overtaken")
    return yield* refuseFull(sql, { project_id, limits }, { entries: 1, stored_bytes, index_bytes: 0 })
  }
  yield* memory.unindex(project_id, last.id, everIndexed(Memory.textOf(last)))
  run.report("superseded", item, row.id)
})

const archive = Effect.fnUntraced(function* (run: Run, memory: Memories, id: string, source: string) {
  const { actor, now, project_id, store } = run
  const archived = yield* memory.archive(project_id, id)
  if (Option.isNone(archived)) return
  yield* memory.unindex(project_id, id, everIndexed(Memory.textOf(archived.value)))
  yield* store.audited(project_id, "memory.archived", actor, { entry_id: id }, yield* traceAt(now))
  const { title } = archived.value
  const why = "The source no longer has this part"
  run.lines.push({ done: "archived", is: "entry", id, file: source, line: null, title, why })
})

type Memories = ReturnType<typeof MemoryStore.make>

const isSame = (last: LastEntry, { body, kind, tags, title }: EntryItem) =>
  sameText(last.body, body) && last.kind === kind && last.title === title && sameList(last.tags, tags)

const rowOf = ({ actor, now }: Run, { body, id, kind, source, tags, title }: EntryItem): MemoryStore.EntryRow => ({
  id,
  kind,
  title,
  body,
  tags,
  active: true,
  supersedes: null,
  superseded_by: null,
  superseded_at: null,
  actor,
  role: "import",
  session_ref: null,
  task_id: null,
  source,
  created_at: now
})
