/**
 * Tries a backup: restores it into a scratch database beside the service's own, or, where that is not possible, reads it
 * whole and verifies its signature.
 */
import { Effect, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Backup } from "./Backup.ts"
import type { Database } from "../database/Database.ts"
import { expect } from "../metrics/Progress.ts"
import * as Folder from "./BackupFolder.ts"
import * as Scratch from "./ScratchDatabase.ts"

type Verdict = Pick<Folder.Result, "outcome" | "reason" | "created_at">

const verdict = (outcome: Folder.Outcome, reason: string | null, created_at: Date | null = null): Verdict => ({
  outcome,
  reason,
  created_at
})

/** Why a backup could not be tried now; a later trial may succeed. */
type Passing = "SqlError" | "bridge_persistence_error" | "BackupFolderError" | "DatabaseUnreachable"

export const make = (backup: Backup["Service"], database: Database["Service"]) => {
  const within = <A>(statements: (scratch: ReturnType<typeof Scratch.make>) => Effect.Effect<A, SqlError.SqlError>) =>
    database.dedicated(Effect.flatMap(SqlClient.SqlClient, (sql) => statements(Scratch.make(sql))))

  const read = (path: string) => backup.verify(Folder.contents(path))

  /** Why a backup cannot be restored into a scratch database; none if it can. */
  const obstacle = Effect.fnUntraced(function* ({ mayCreate, size }: Scratch.Facts) {
    if (!mayCreate) return Option.some("This account may not create a database: alter role NAME createdb.")
    const { embedded } = database
    return embedded !== undefined && (yield* Folder.roomIn(embedded)) < 2 * size
      ? Option.some("The disk of the database has no room for a second copy.")
      : Option.none<string>()
  })

  const restored = (name: string, path: string) =>
    Effect.acquireUseRelease(
      within(({ create }) => create(name)),
      () => backup.restoreBeside(name, Folder.contents(path)),
      () => Effect.ignore(within(({ drop }) => drop(name)))
    )

  const byRestoring = Effect.fnUntraced(function* (path: string) {
    const facts = yield* within((scratch) => scratch.facts)
    const reason = yield* obstacle(facts)
    // A restore reads the file twice.
    yield* expect(Effect.map(Folder.markOf(path), ({ size }) => (Option.isSome(reason) ? size : 2 * size)))
    if (Option.isSome(reason)) return verdict("read", reason.value, (yield* read(path)).created_at)
    return yield* restored(facts.name, path).pipe(
      Effect.map(({ created_at }) => verdict("restored", null, created_at)),
      Effect.catchTag("TrialTooSlow", ({ created_at, minutes }) =>
        Effect.succeed(verdict("read", `No database could be made of it within ${minutes} minutes.`, created_at))
      )
    )
  })

  /** `as`: what a file counts as that is whole. */
  const byReading = (path: string, as: Pick<Folder.Result, "outcome" | "reason">) =>
    Effect.map(read(path), ({ created_at }) => ({ ...as, created_at }))

  const judged = <E extends { readonly _tag: string }>(trial: Effect.Effect<Verdict, E>) =>
    trial.pipe(
      Effect.catch((error): Effect.Effect<Verdict, Extract<E, { readonly _tag: Passing }>> => {
        switch (error._tag) {
          case "BackupDamaged":
            return Effect.succeed(verdict("damaged", "It was truncated or altered."))
          case "BackupUnsigned":
            return Effect.succeed(verdict("damaged", "It has no signature."))
          case "BackupOfAnotherKey":
            return Effect.succeed(verdict("foreign", "It was signed with another key."))
          case "SqlError":
          case "bridge_persistence_error":
          case "BackupFolderError":
          case "DatabaseUnreachable":
          case "ConfigurationError":
            return Effect.fail(error as Extract<E, { readonly _tag: Passing }>)
          default:
            return Effect.succeed(verdict("failed", `No database could be made of it (${error._tag}).`))
        }
      }),
      // Rows that break a constraint.
      Effect.catchDefect(() => Effect.succeed(verdict("failed", "No database could be made of it.")))
    )

  /** The result for the file as it was before and after the trial; damaged if it changed meanwhile. */
  const of = <E extends { readonly _tag: string }>(path: string, now: Date, trial: Effect.Effect<Verdict, E>) =>
    Effect.gen(function* () {
      const mark = yield* Folder.markOf(path)
      const found = yield* judged(trial)
      const after = yield* Folder.markOf(path)
      const same = after.changed === mark.changed && after.size === mark.size
      return {
        ...mark,
        ...(same ? found : verdict("damaged", "It was changed while it was tried.")),
        key: backup.keyId ?? null,
        tried_at: now
      } satisfies Folder.Result
    })

  return {
    byRestoring: (path: string, now: Date) => of(path, now, byRestoring(path)),
    byReading: (path: string, now: Date, as: Pick<Folder.Result, "outcome" | "reason">) =>
      of(path, now, byReading(path, as))
  }
}
