/** What time or somebody else has ended of devices. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import * as Store from "./SweepStore.ts"

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "end devices", run: (sql, now, limit) => Store.make(sql).endUnauthorized(now, limit) },
  { name: "purge devices", run: (sql, now, limit) => Store.make(sql).purgeDevices(purgeBefore(now), limit) },
  { name: "purge registrations", run: (sql, now, limit) => Store.make(sql).purgeRegistrations(purgeBefore(now), limit) }
]
