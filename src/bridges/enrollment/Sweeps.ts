/** Thirty days after their end: challenges, tokens, credentials, and names that were never proved. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import * as Store from "./SweepStore.ts"

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "purge challenges", run: (sql, now, limit) => Store.make(sql).purgeChallenges(purgeBefore(now), limit) },
  { name: "purge tokens", run: (sql, now, limit) => Store.make(sql).purgeTokens(purgeBefore(now), limit) },
  { name: "purge credentials", run: (sql, now, limit) => Store.make(sql).purgeCredentials(purgeBefore(now), limit) },
  { name: "purge reservations", run: (sql, now, limit) => Store.make(sql).purgeReservations(purgeBefore(now), limit) }
]
