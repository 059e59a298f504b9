/** What time ends in rotation: windows, tokens, and thirty days later their rows. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import * as Store from "./SweepStore.ts"

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "settle rotations", run: (sql, now, limit) => Store.make(sql).settleRotations(now, limit) },
  { name: "settle tokens", run: (sql, now, limit) => Store.make(sql).settleTokens(now, limit) },
  { name: "purge rotations", run: (sql, now, limit) => Store.make(sql).purgeRotations(purgeBefore(now), limit) }
]
