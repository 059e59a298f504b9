/**
 * Runs the sweeps: statements that record expiries, and that delete rows 30 days after their end. Each runs on one
 * replica at a time, whichever gets the lock.
 *
 * Correctness does not depend on sweeps: every read compares a row's expiry with the time of the request.
 */
import { Effect, Option, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { count, sweepFailures, sweptRows } from "../metrics/Metrics.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { rows } from "../sql/Rows.ts"
import { DatabaseClock } from "./Clock.ts"
import { Database } from "./Database.ts"
import { logFault } from "./FaultLog.ts"
import { describe } from "./Persistence.ts"

/**
 * Runs a part of a batch in a transaction of its own. Returns none, too, if another replica has the sweep's lock, or if the
 * sweep's turn is over.
 */
type Part = <A, E, R>(
  work: Effect.Effect<Option.Option<A>, E, R>
) => Effect.Effect<Option.Option<A>, E | SqlError.SqlError, R>

export interface Sweep<R = never> {
  readonly name: string
  /**
   * Changes at most `limit` rows and returns one element for each; also for those that it leaves to a lock, so that it goes on
   * behind them. It runs again until it returns fewer.
   */
  readonly run: (
    sql: SqlClient.SqlClient,
    now: Date,
    limit: number,
    part?: Part
  ) => Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError, R>
  /** `run` does everything in a `part`. Otherwise a batch is one transaction. */
  readonly inParts?: boolean
}

const limit = 1000

/** A sweep's turn ends after this many batches, or after five seconds: the others have work to do, too. */
const batches = 10
const turnMillis = 5000

/**
 * Runs every sweep once, in order, each batch, or each part of it, in its own transaction. Returns whether one of them has
 * more to do.
 *
 * A statement has twenty seconds. It finds each row by index; by its own estimates, or without statistics after a restore,
 * PostgreSQL would sometimes read a whole table instead.
 */
export const sweepOnce = Effect.fn("Sweeper.sweepOnce")(function* <R>(sweeps: ReadonlyArray<Sweep<R>>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* (yield* DatabaseClock).now
  const turn = Effect.fnUntraced(function* ({ inParts, name, run }: Sweep<R>) {
    const startedAt = performance.now()
    const isOver = () => performance.now() - startedAt >= turnMillis
    let isCut = false
    const inTransaction: Part = (work) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const [{ mine } = { mine: false }] = yield* rows(Schema.Struct({ mine: Schema.Boolean }))(sql`
            select pg_try_advisory_xact_lock(hashtext('bridge-service sweep'), hashtext(${name})) as mine,
                   set_config('statement_timeout', '20s', true), set_config('enable_seqscan', 'off', true),
                   set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`)
          return mine ? yield* work : Option.none()
        })
      )
    const part: Part = (work) =>
      Effect.suspend(() => {
        isCut = isOver()
        return isCut ? Effect.succeedNone : inTransaction(work)
      })
    const whole = Effect.map(
      part(Effect.asSome(run(sql, now, limit))),
      Option.getOrElse(() => [])
    )
    const batch = (inParts === true ? run(sql, now, limit, part) : whole).pipe(
      Effect.map(({ length }) => length),
      Effect.tap((done) => count(sweptRows(name), done))
    )
    const isFull = (done: number) => done === limit
    const last = yield* Effect.repeat(batch, { while: (done) => isFull(done) && !isOver(), times: batches - 1 })
    return isCut || isFull(last)
  })
  return (yield* Effect.forEach(sweeps, turn)).includes(true)
})

/**
 * Runs all sweeps a minute after the start and every minute from then on; a second later if one has more to do. A failed
 * sweep does not stop the others, and the end of the connection's ten minutes takes no sweep's turn: the next round begins
 * behind the last one that had its own.
 */
export const sweepForever = <R>(sweeps: ReadonlyArray<Sweep<R>>) =>
  Effect.gen(function* () {
    const { dedicated } = yield* Database
    yield* Effect.forEach(sweeps, ({ name }) =>
      Effect.andThen(count(sweptRows(name), 0), count(sweepFailures(name), 0))
    )
    let unfinished = false
    const note = (more: boolean) => Effect.sync(() => (unfinished ||= more))
    let next = 0
    const turn = Effect.suspend(() => {
      const sweep = sweeps[next]!
      next = (next + 1) % sweeps.length
      return Effect.annotateLogs(survive(Effect.flatMap(sweepOnce([sweep]), note), sweep.name), "sweep", sweep.name)
    })
    const each = Effect.forEach(sweeps, () => turn)
    const round = Effect.gen(function* () {
      yield* Effect.sleep(unfinished ? "1 second" : "1 minute")
      unfinished = false
      yield* survive(dedicated(each), "connect")
    })
    return yield* Effect.forever(round)
  })

const survive = <A, R>(
  self: Effect.Effect<A, SqlError.SqlError | SharedRefusal<"bridge_persistence_error">, R>,
  sweep: string
) =>
  self.pipe(
    Effect.asVoid,
    Effect.onError(() => count(sweepFailures(sweep))),
    Effect.catch((error) => logFault("A sweep failed", error._tag === "SqlError" ? describe(error) : {})),
    Effect.catchDefect((defect) => Effect.logError("A sweep failed", defect instanceof Error ? defect.name : ""))
  )

/** Rows that ended before this instant are deleted. */
export const purgeBefore = (now: Date): Date => new Date(now.getTime() - 30 * 86_400_000)
