/**
 * Writes down what time has ended, and deletes what ended 30 days ago. Any replica may do it; one at a time does.
 *
 * Correctness never waits for a sweep: whoever reads a row compares its expiry with the time of the request.
 */
import { Effect, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { count, sweepFailures, sweptRows } from "../metrics/Metrics.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { rows } from "../sql/Rows.ts"
import { DatabaseClock } from "./Clock.ts"
import { Database } from "./Database.ts"
import { describe } from "./Persistence.ts"

/** Does at most `limit` rows and answers how many it did; asked again until it did fewer. */
export interface Sweep {
  readonly name: string
  readonly run: (
    sql: SqlClient.SqlClient,
    now: Date,
    limit: number
  ) => Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>
}

const limit = 1000

/** Every sweep, in order, each batch in a transaction of its own. Sweeps that find nothing cost one query each. */
export const sweepOnce = Effect.fn("Sweeper.sweepOnce")(function* (sweeps: ReadonlyArray<Sweep>) {
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

/** A minute after the start and every minute from then on. One that fails does not hold up the others. */
export const sweepForever = (sweeps: ReadonlyArray<Sweep>) =>
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

/** When rows that have ended are deleted. */
export const purgeBefore = (now: Date): Date => new Date(now.getTime() - 30 * 86_400_000)
