/**
 * Indexes entries again: those that an earlier release wrote without dates and commit ids (migration 0039), and all of
 * a restored backup, which has no postings. An entry that is archived at the same instant may keep a posting, which no
 * search returns, because the entry is not active.
 */
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { nil } from "../../wire/Ids.ts"
import { describe } from "../../platform/database/Persistence.ts"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { apart } from "../../platform/database/Transactions.ts"
import { count, sweepFailures } from "../../platform/metrics/Metrics.ts"
import { textOf } from "./Memory.ts"
import * as MemoryStore from "./MemoryStore.ts"
import { searchText } from "./Search.ts"

const name = "index memory"

/** Entries at once. Projects take turns with as many, so that a large one lets the others go on. */
const chunk = 100
/**
 * Bytes of their texts, the last one aside. Three bytes have two lexemes at most: the 20,000 postings of a chunk are inserted
 * within the twenty seconds of a statement also where each one reads a page of the disk.
 */
const chunkBytes = 32 * 1024

/** Milliseconds until a project is tried again whose entries could not be indexed. */
const postponedMillis = 600_000

type Store = ReturnType<typeof MemoryStore.make>

/** Indexes the next entries of a project after the id `after`, and returns their ids; none if it is done. */
const indexAfter = Effect.fnUntraced(function* (store: Store, project_id: string, after: string, limit: number) {
  const entries = yield* store.activeAfter(project_id, after, limit, chunkBytes)
  const ids = entries.map(({ id }) => id)
  yield* store.reindexed(project_id, ids.at(-1))
  if (entries.length > 0) {
    // Between two entries requests go first.
    const texts = yield* Effect.forEach(entries, (entry) =>
      Effect.as(Effect.yieldNow, { id: entry.id, ...searchText(textOf(entry)) })
    )
    const { bytes } = Option.getOrThrow(yield* store.reindex(project_id, texts))
    // Last, because every writer of the project waits for this row.
    yield* store.countPostings(project_id, bytes)
  }
  return ids
})

/**
 * The same for the next project after `last`; none if there is no such project. One that fails is tried again later: the
 * projects behind it do not wait for it.
 */
const indexNext = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date, last: string, limit: number) {
  const store = MemoryStore.make(sql)
  const due = yield* store.nextToReindex(now, last)
  if (Option.isNone(due)) return Option.none()
  const { after, project_id } = due.value
  const ids = yield* apart(sql)(indexAfter(store, project_id, after, limit)).pipe(
    Effect.catchTag(
      "SqlError",
      Effect.fnUntraced(function* (error) {
        yield* store.postponeReindex(project_id, new Date(now.getTime() + postponedMillis))
        yield* count(sweepFailures(name))
        yield* Effect.logWarning("A project could not be indexed").pipe(
          Effect.annotateLogs({ project_id, ...describe(error) })
        )
        return []
      })
    )
  )
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

export const sweeps: ReadonlyArray<Sweep> = [{ name, run: indexMemory, inParts: true }]
