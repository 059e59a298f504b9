/** Checks how old the last good backup is, where the service makes backups by itself. */
import { Clock, Effect, Option } from "effect"
import { Backups, type BackupState } from "../../../src/platform/backups/Backups.ts"
import { type Check, check } from "./Check.ts"

export const backups = Effect.gen(function* () {
  const state = yield* (yield* Backups).state
  const now = yield* Clock.currentTimeMillis
  return Option.match(state, { onNone: () => [], onSome: (found) => [judged(found, now)] })
})

/** Older than two intervals is what the alert reports, too. */
export const judged = ({ every_seconds, last_good_at, problem }: BackupState, now: number): Check => {
  const isOld = last_good_at === null || now - last_good_at.getTime() > 2000 * every_seconds
  const last =
    last_good_at === null ? "There is no good backup" : `The last good backup is of ${last_good_at.toISOString()}`
  if (!isOld && problem === null) return check("backups", "ok", `${last}.`)
  const why = problem ?? "The service made none since then: its log says why."
  return check("backups", isOld ? "fail" : "warn", `${last}. ${why} See "Backups by themselves" in docs/run.md.`)
}
