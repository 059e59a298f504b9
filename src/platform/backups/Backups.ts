/**
 * Makes backups by itself, and tries each one (decisions.md, Backups by themselves).
 *
 * 1. Once a minute each replica looks whether something is to do. Each step of it needs a lock that one process can hold.
 * 2. What a crash left half written is removed, and backups that were not tried since they were written are tried.
 * 3. If the last good backup is older than SERVICE_BACKUP_EVERY_SECONDS, one is written and tried.
 * 4. Good ones beyond SERVICE_BACKUP_KEEP are removed, oldest first: none goes before a newer good one is there.
 *
 * The service restores into a scratch database only with the embedded database. With an external one it reads what it
 * wrote, and `service-admin verify-backup` restores it.
 */
import { Cause, Context, Data, Deferred, Duration, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { Audit } from "../audit/Audit.ts"
import { Backup, type BackupTooSlow } from "./Backup.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database, type DatabaseUnreachable } from "../database/Database.ts"
import { longPersistence, persistence, withoutValues } from "../database/Persistence.ts"
import { count, sweepFailures } from "../metrics/Metrics.ts"
import { operator } from "../settings/Operator.ts"
import { ConfigurationError, Settings } from "../settings/Settings.ts"
import * as Folder from "./BackupFolder.ts"
import * as Scratch from "./ScratchDatabase.ts"
import * as Trial from "./Trial.ts"

/** Another process makes or tries a backup. */
export class BackupBusy extends Data.TaggedError("BackupBusy") {
  override readonly message = "Another process is making or trying a backup: try again when it is done."
}
/** The message says why. */
export class BackupNotGood extends Data.TaggedError("BackupNotGood")<{ readonly message: string }> {}

/** SERVICE_BACKUP_DIR. A backup is good if it was restored, or at least read whole, and is unchanged since then. */
export interface BackupState {
  /** When the newest good one was made; null if there is none. */
  readonly last_good_at: Date | null
  /** When the newest one was made that was restored into a scratch database. */
  readonly last_restored_at: Date | null
  readonly good: number
  /** Damaged, of another key, impossible to restore, or not tried since they were written. */
  readonly not_good: number
  readonly every_seconds: number
  /** What is wrong with the newest backup, or with the folder; or why the newest could only be read. */
  readonly problem: string | null
}

export interface Tried {
  readonly file: string
  readonly outcome: "restored" | "read"
  /** Why it was only read. */
  readonly reason: string | null
  readonly created_at: Date
}

type Failed =
  | SharedRefusal<"bridge_persistence_error">
  | BackupTooSlow
  | Folder.BackupFolderError
  | ConfigurationError
  | DatabaseUnreachable

export class Backups extends Context.Service<
  Backups,
  {
    /** None without SERVICE_BACKUP_DIR. Needs no database: it reads names, sizes, times and the results of trials. */
    readonly state: Effect.Effect<Option.Option<BackupState>>
    /** Does what is due. */
    readonly turn: Effect.Effect<void, Failed>
    /** Tries a file, or the newest one of the folder, by restoring it if this account may create a database. */
    readonly verify: (file: Option.Option<string>) => Effect.Effect<Tried, Failed | BackupBusy | BackupNotGood>
  }
>()("service/backups/Backups") {
  static readonly layer = Layer.effect(
    Backups,
    Effect.gen(function* () {
      const database = yield* Database
      const backup = yield* Backup
      const audit = yield* Audit
      const clock = yield* DatabaseClock
      const { every, folder, keep } = (yield* Settings).backup
      const trial = Trial.make(backup, database)
      const period = Duration.toMillis(every)

      const isGood = ({ result }: Folder.Found) =>
        Option.exists(result, ({ key, outcome }) => key === backup.keyId && isWhole(outcome))

      /**
       * Runs `work` while another fiber holds the lock; none if another process has it. The lock is held for as long as the
       * work takes, which has limits of its own. With its connection the lock is lost, and the work ends. In the holder's own
       * fiber, `work` would join its transaction.
       */
      const locked = Effect.fnUntraced(function* <A, E>(work: Effect.Effect<A, E>) {
        const taken = yield* Deferred.make<boolean>()
        const holding = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { alive, lock } = Scratch.make(sql)
          const hold = Effect.gen(function* () {
            yield* Deferred.succeed(taken, yield* lock)
            return yield* Effect.forever(Effect.delay(alive, "2 seconds"))
          })
          return yield* sql.withTransaction(hold)
        })
        const whileHeld = Effect.flatMap(Deferred.await(taken), (mine) =>
          mine ? Effect.asSome(work) : Effect.succeed(Option.none<A>())
        )
        return yield* Effect.raceFirst(whileHeld, database.dedicated(holding, Duration.infinity))
      }, longPersistence)

      const tryOne = Effect.fnUntraced(function* ({ path, result }: Folder.Found, now: Date) {
        const before = Option.getOrUndefined(result)
        const tried =
          before?.outcome === "restored" && before.key === backup.keyId
            ? trial.byReading(path, now, { outcome: before.outcome, reason: before.reason })
            : database.embedded === undefined
              ? trial.byReading(path, now, readOnly)
              : trial.byRestoring(path, now)
        const found = yield* longPersistence(tried)
        yield* Folder.keep(path, found)
        if (isWhole(found.outcome)) return
        const { outcome, reason } = found
        yield* Effect.logError("A backup is not good").pipe(Effect.annotateLogs({ file: path, outcome, reason }))
      })

      const write = Effect.fnUntraced(function* (folder: string, now: Date) {
        const file = Folder.nameOf(now)
        const { rows, tables } = yield* Folder.write(folder, file, (append) =>
          Effect.tap(backup.save(append), ({ created_at }) =>
            persistence(
              audit.done(created_at, { action: "database.backed_up", project_id: null, actor: operator, subject: {} })
            )
          )
        )
        yield* Effect.logInfo("A backup was made").pipe(Effect.annotateLogs({ file, tables, rows }))
      })

      /** One from the future was made while a clock was wrong. */
      const isOld = (at: Date, now: Date, millis: number) => Math.abs(now.getTime() - at.getTime()) >= millis

      const look = Effect.fnUntraced(function* (folder: string, now: Date) {
        const found = yield* Folder.list(folder)
        const own = found.filter((one) => outcomeOf(one) !== "foreign")
        const good = found.find(isGood)
        return {
          untried: found.filter(({ result }) =>
            Option.match(result, {
              onNone: () => true,
              onSome: ({ key, tried_at }) => key !== (backup.keyId ?? null) || isOld(tried_at, now, triedAgain)
            })
          ),
          due:
            isOld(madeAt(good) ?? new Date(0), now, period) &&
            // Backups that all fail their trial would wear out the disk.
            own.every(({ at }) => isOld(at, now, Math.min(period, anotherAttempt)))
        }
      })

      const prune = Effect.fnUntraced(function* (folder: string) {
        const found = yield* Folder.list(folder)
        const good = found.filter(isGood)
        const oldest = good[keep - 1]
        // What another key signed may be of another service, and is the operator's to delete.
        const bad = found.filter((one) => !isGood(one) && outcomeOf(one) !== "foreign")
        const useless = bad.filter(({ name }, index) => index >= keep || (oldest !== undefined && name < oldest.name))
        yield* Effect.forEach([...good.slice(keep), ...useless], ({ path }) => Folder.remove(path), { discard: true })
      })

      const turn = Effect.gen(function* () {
        if (folder === undefined) return
        yield* Folder.prepare(folder)
        const now = yield* clock.now
        const failed = new Set<string>()
        let mayWrite = true
        /** Does one thing; returns whether there may be more. */
        const step = Effect.gen(function* () {
          yield* Folder.removeDrafts(folder)
          const { due, untried } = yield* look(folder, now)
          const next = untried.find(({ name }) => !failed.has(name))
          if (next !== undefined) {
            // A file that cannot be tried must not keep the others from it.
            const survived = tryOne(next, now).pipe(
              Effect.catch((error) => {
                failed.add(next.name)
                return warn("A backup could not be tried", reasonOf(error))
              })
            )
            yield* survived
            return true
          }
          if (due && mayWrite) {
            mayWrite = false
            yield* write(folder, now)
            return true
          }
          yield* prune(folder)
          return false
        })
        const { due, untried } = yield* look(folder, now)
        if (!due && untried.length === 0) return
        yield* Effect.repeat(locked(step), { while: Option.exists((more) => more) })
      })

      const problemOf = (newest: Folder.Found | undefined) => {
        if (newest === undefined) return "There is no backup."
        return isGood(newest) ? whyOnlyRead(newest) : whatIsWrong(newest)
      }
      const stateOf = (found: ReadonlyArray<Folder.Found>): BackupState => {
        const good = found.filter(isGood)
        return {
          last_good_at: madeAt(good[0]),
          last_restored_at: madeAt(good.find((one) => outcomeOf(one) === "restored")),
          good: good.length,
          not_good: found.length - good.length,
          every_seconds: Duration.toSeconds(every),
          problem: problemOf(found[0])
        }
      }
      const unreadable = (problem: string): BackupState => ({ ...stateOf([]), problem })

      const state =
        folder === undefined
          ? Effect.succeedNone
          : Effect.map(Folder.list(folder), stateOf).pipe(
              Effect.catch(({ message }) => Effect.succeed(unreadable(message))),
              Effect.timeoutOrElse({
                duration: "2 seconds",
                orElse: () => Effect.succeed(unreadable(`${folder} does not answer.`))
              }),
              Effect.asSome
            )

      const verify = Effect.fn("Backups.verify")(function* (file: Option.Option<string>) {
        if (folder === undefined && Option.isNone(file)) return yield* noFolder
        const newest = Option.isSome(file) ? undefined : (yield* Folder.list(folder!))[0]?.path
        const path = Option.getOrElse(file, () => newest)
        if (path === undefined) return yield* new BackupNotGood({ message: `${folder} holds no backup.` })
        const isOwn = folder !== undefined && Folder.isOf(folder, path)
        const target = isOwn ? path : yield* Folder.targetOf(path)
        const now = yield* clock.now
        const work = Effect.tap(longPersistence(trial.byRestoring(target, now)), (result) =>
          isOwn ? Folder.keep(path, result) : Effect.void
        )
        const result = yield* locked(work)
        if (Option.isNone(result)) return yield* new BackupBusy()
        const { created_at, outcome, reason } = result.value
        if (!isWhole(outcome) || created_at === null)
          return yield* new BackupNotGood({ message: `${path} is not good. ${reason}` })
        return { file: path, outcome, reason, created_at }
      })

      return { state, turn, verify }
    })
  )
}

const isWhole = (outcome: Folder.Outcome) => outcome === "restored" || outcome === "read"

const outcomeOf = ({ result }: Folder.Found) => Option.getOrUndefined(result)?.outcome
const madeAt = (found: Folder.Found | undefined) => (found && Option.getOrUndefined(found.result)?.created_at) ?? null

const whatIsWrong = ({ name, result }: Folder.Found) =>
  Option.match(result, {
    onNone: () => `${name} was not tried, or was changed since then.`,
    onSome: ({ reason }) => `${name} is not good. ${reason ?? "Its key is not here."}`
  })

const whyOnlyRead = ({ name, result }: Folder.Found) => {
  const reason = Option.getOrUndefined(result)?.reason ?? null
  return reason === null || reason === readOnly.reason ? null : `${name} was only read. ${reason}`
}

const readOnly = {
  outcome: "read",
  reason: "The service does not restore into an external database: service-admin verify-backup does."
} as const

/** Bits rot, and what failed may succeed with the next release. */
const triedAgain = 86_400_000
const anotherAttempt = 3_600_000

const noFolder = new ConfigurationError({ message: "SERVICE_BACKUP_DIR is not set: name a file with --in." })

const sweep = "make backups"

const warn = (line: string, facts: object) =>
  Effect.andThen(count(sweepFailures(sweep)), Effect.logWarning(line).pipe(Effect.annotateLogs({ ...facts })))

const reasonOf = ({ _tag, message }: Failed) => ({
  reason: _tag === "BackupFolderError" || _tag === "BackupTooSlow" ? message : _tag
})

/** Looks once a minute, or more often if backups are made more often. A failure waits five minutes. */
export const backUpForever = Effect.gen(function* () {
  const { every, folder } = (yield* Settings).backup
  const { turn } = yield* Backups
  if (folder === undefined) return
  yield* count(sweepFailures(sweep), 0)
  const pause = (most: Duration.Input) => Effect.sleep(Duration.min(every, Duration.fromInputUnsafe(most)))
  const failed = (facts: object) => Effect.andThen(warn("No backup could be made", facts), pause("5 minutes"))
  return yield* turn.pipe(
    Effect.andThen(pause("1 minute")),
    Effect.catch((error) => failed(reasonOf(error))),
    Effect.catchDefect((defect) => failed(withoutValues(Cause.die(defect)))),
    Effect.repeat(Schedule.forever)
  )
})
