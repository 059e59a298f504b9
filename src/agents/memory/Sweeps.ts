/**
 * Adds dates and commit ids to the index of entries that an earlier release wrote (migration 0039). An entry that is
 * archived at the same instant may keep a posting, which no search returns, because the entry is not active.
 */
import { Effect, Option } from "effect"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { textOf } from "./Memory.ts"
import * as MemoryStore from "./MemoryStore.ts"
import { keysIn, searchText } from "./Search.ts"

/** Entries in memory at once: 1.6 MiB. */
const chunk = 100

const indexDates: Sweep["run"] = Effect.fnUntraced(function* (sql, now, limit) {
  const store = MemoryStore.make(sql)
  const read: Array<string> = []
  while (read.length < limit) {
    const due = yield* store.nextToReindex(now)
    if (Option.isNone(due)) break
    const { after, project_id } = due.value
    const most = Math.min(chunk, limit - read.length)
    const entries = yield* store.activeAfter(project_id, after, most)
    const dated = entries.filter((entry) => keysIn(textOf(entry)).length > 0)
    if (dated.length > 0) {
      yield* store.reindex(
        project_id,
        dated.map((entry) => ({ id: entry.id, ...searchText(textOf(entry)) }))
      )
    }
    const last = entries.length < most ? undefined : entries.at(-1)?.id
    yield* store.reindexed(project_id, last)
    read.push(...entries.map(({ id }) => id))
  }
  return read
})

export const sweeps: ReadonlyArray<Sweep> = [{ name: "index dates", run: indexDates }]
