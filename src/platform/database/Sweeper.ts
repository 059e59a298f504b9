/**
 * Runs the sweeps: statements that record expiries, and that delete rows 30 days after their end. Each runs on one
 * replica at a time, whichever gets the lock.
 *
 * Correctness does not depend on sweeps: every read compares a row's expiry with the time of the request.
 */
import { Effect, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { count, sweepFailures, sweptRows } from "../metrics/Metrics.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { rows } from "../sql/Rows.ts"
import { DatabaseClock } from "./Clock.ts"
import { Database } from "./Database.ts"
import { describe } from "./Persistence.ts"

export interface Sweep<R = never> {
  readonly name: string
  /** Changes at most `limit` rows and returns one element for each. It runs again until it returns fewer. */
  readonly run: (
    sql: SqlClient.SqlClient,
    now: Date,
    limit: number
  ) => Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError, R>
}

const limit = 1000

/** Runs every sweep once, in order, each batch in its own transaction. */
export const sweepOnce = Effect.fn("Sweeper.sweepOnce")(function* <R>(sweeps: ReadonlyArray<Sweep<R>>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* (yield* DatabaseClock).now
  for (const { name, run } of sweeps) {
    const batch = sql
      .withTransaction(
        Effect.gen(function* () {
          const [{ mine } = { mine: false }] = yield* rows(Schema.Struct({ mine: Schema.Boolean }))(
            sql`select pg_try_advisory_xact_lock(hashtext('bridge-service sweep'), hashtext(${name})) as mine`
          )
          return mine ? (yield* run(sql, now, limit)).length : 0
        })
      )
      .pipe(Effect.tap((done) => count(sweptRows(name), done)))
    yield* Effect.repeat(batch, { while: (done) => done === limit })
  }
})

/** Runs all sweeps a minute after the start and every minute from then on. A failed sweep does not stop the others. */
export const sweepForever = <R>(sweeps: ReadonlyArray<Sweep<R>>) =>
  Effect.gen(function* () {
    const { dedicated } = yield* Database
    yield* Effect.forEach(sweeps, ({ name }) =>
      Effect.andThen(count(sweptRows(name), 0), count(sweepFailures(name), 0))
    )
    const each = Effect.forEach(sweeps, (sweep) =>
      Effect.annotateLogs(survive(sweepOnce([sweep]), sweep.name), "sweep", sweep.name)
    )
    yield* survive(dedicated(each), "connect").pipe(Effect.schedule(Schedule.spaced("1 minute")))
  })

const survive = <A, R>(
  self: Effect.Effect<A, SqlError.SqlError | SharedRefusal<"bridge_persistence_error">, R>,
  sweep: string
) =>
  self.pipe(
    Effect.asVoid,
    Effect.onError(() => count(sweepFailures(sweep))),
    Effect.catch((error) =>
      Effect.logWarning("A sweep failed").pipe(Effect.annotateLogs(error._tag === "SqlError" ? describe(error) : {}))
    ),
    Effect.catchDefect((defect) => Effect.logError("A sweep failed", defect instanceof Error ? defect.name : ""))
  )

/** Rows that ended before this instant are deleted. */
export const purgeBefore = (now: Date): Date => new Date(now.getTime() - 30 * 86_400_000)
