/**
 * Indexes entries again: those that an earlier release wrote without dates and commit ids (migration 0039), and all of
 * a restored backup, which has no postings. An entry that is archived at the same instant may keep a posting, which no
 * search returns, because the entry is not active.
 */
import { Effect, Option } from "effect"
import { nil } from "../../wire/Ids.ts"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { textOf } from "./Memory.ts"
import * as MemoryStore from "./MemoryStore.ts"
import { searchText } from "./Search.ts"

/** Entries in memory at once: 1.6 MiB. Projects take turns with as many, so that a large one lets the others go on. */
const chunk = 100

const indexMemory: Sweep["run"] = Effect.fnUntraced(function* (sql, now, limit) {
  const store = MemoryStore.make(sql)
  const read: Array<string> = []
  const added = new Map<string, number>()
  let last = nil
  while (read.length < limit) {
    const due = yield* store.nextToReindex(now, last)
    if (Option.isNone(due)) {
      if (last === nil) break
      last = nil
      continue
    }
    const { after, project_id } = due.value
    last = project_id
    const most = Math.min(chunk, limit - read.length)
    const entries = yield* store.activeAfter(project_id, after, most)
    if (entries.length > 0) {
      // Between two entries requests go first.
      const texts = yield* Effect.forEach(entries, (entry) =>
        Effect.as(Effect.yieldNow, { id: entry.id, ...searchText(textOf(entry)) })
      )
      const { bytes } = Option.getOrThrow(yield* store.reindex(project_id, texts))
      added.set(project_id, bytes + (added.get(project_id) ?? 0))
    }
    yield* store.reindexed(project_id, entries.length < most ? undefined : entries.at(-1)?.id)
    read.push(...entries.map(({ id }) => id))
  }
  // Last, because every writer of the project waits for this row.
  for (const [project_id, bytes] of added) yield* store.countPostings(project_id, bytes)
  return read
})

export const sweeps: ReadonlyArray<Sweep> = [{ name: "index memory", run: indexMemory }]
