/** Notifications that came too late, and those that were settled thirty days ago. */
import { purgeBefore, type Sweep } from "../platform/database/Sweeper.ts"
import * as Store from "./SweepStore.ts"

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "expire deliveries", run: (sql, now, limit) => Store.make(sql).expire(now, limit) },
  { name: "purge deliveries", run: (sql, now, limit) => Store.make(sql).purge(purgeBefore(now), limit) }
]
