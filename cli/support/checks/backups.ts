/** Checks how old the last good backup is, and whose folder it is in, where the service makes backups by itself. */
import { Clock, Effect, Option } from "effect"
import { isForeign } from "../../../src/platform/backups/BackupFolder.ts"
import { Backups, type BackupState } from "../../../src/platform/backups/Backups.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { type Check, check } from "./Check.ts"

export const backups = Effect.gen(function* () {
  const { folder } = (yield* Settings).backup
  const state = yield* (yield* Backups).state
  if (folder === undefined || Option.isNone(state)) return []
  return [judged(state.value, yield* Clock.currentTimeMillis), ...(yield* ownerOf(folder))]
})

/** A warning, because a network disk may show another owner. If the folder cannot be used, the first check says so. */
const ownerOf = (folder: string) =>
  isForeign(folder).pipe(
    Effect.timeout("2 seconds"),
    Effect.orElseSucceed(() => false),
    Effect.map((foreign) => {
      const message = `${folder} belongs to another account, which can delete the backups in it: let this account or root own it.`
      return foreign ? [check("backup_folder", "warn", message)] : []
    })
  )

/** Older than two intervals is what the alert reports, too. */
export const judged = ({ every_seconds, last_good_at, problem }: BackupState, now: number): Check => {
  const isOld = last_good_at === null || now - last_good_at.getTime() > 2000 * every_seconds
  const last =
    last_good_at === null ? "There is no good backup" : `The last good backup is of ${last_good_at.toISOString()}`
  if (!isOld && problem === null) return check("backups", "ok", `${last}.`)
  const why = problem ?? "The service made none since then: its log says why."
  return check("backups", isOld ? "fail" : "warn", `${last}. ${why} See "Backups by themselves" in docs/run.md.`)
}
