/**
 * Indexes entries again: those that an earlier release wrote without dates and commit ids (migration 0039), and all of
 * a restored backup, which has no postings. An entry that is archived at the same instant may keep a posting, which no
 * search returns, because the entry is not active.
 */
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { nil } from "../../wire/Ids.ts"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { textOf } from "./Memory.ts"
import * as MemoryStore from "./MemoryStore.ts"
import { searchText } from "./Search.ts"

/** Entries in memory at once: 1.6 MiB. Projects take turns with as many, so that a large one lets the others go on. */
const chunk = 100

/** Indexes entries of the next project after `last`, and returns their ids; none if there is no such project. */
const indexNext = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date, last: string, limit: number) {
  const store = MemoryStore.make(sql)
  const due = yield* store.nextToReindex(now, last)
  if (Option.isNone(due)) return Option.none()
  const { after, project_id } = due.value
  const entries = yield* store.activeAfter(project_id, after, limit)
  const ids = entries.map(({ id }) => id)
  yield* store.reindexed(project_id, ids.length < limit ? undefined : ids.at(-1))
  if (entries.length > 0) {
    // Between two entries requests go first.
    const texts = yield* Effect.forEach(entries, (entry) =>
      Effect.as(Effect.yieldNow, { id: entry.id, ...searchText(textOf(entry)) })
    )
    const { bytes } = Option.getOrThrow(yield* store.reindex(project_id, texts))
    // Last, because every writer of the project waits for this row.
    yield* store.countPostings(project_id, bytes)
  }
  return Option.some({ project_id, ids })
})

/** A part waits for the usage of its project, which every write locks. It holds no other one, whose writes would wait, too. */
const indexMemory: Sweep["run"] = Effect.fnUntraced(function* (sql, now, limit, part = sql.withTransaction) {
  const read: Array<string> = []
  let last = nil
  while (read.length < limit) {
    const indexed = yield* part(indexNext(sql, now, last, Math.min(chunk, limit - read.length)))
    if (Option.isNone(indexed)) {
      if (last === nil) break
      last = nil
      continue
    }
    last = indexed.value.project_id
    read.push(...indexed.value.ids)
  }
  return read
})

export const sweeps: ReadonlyArray<Sweep> = [{ name: "index memory", run: indexMemory, inParts: true }]
