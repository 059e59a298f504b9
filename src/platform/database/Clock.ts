/**
 * The time of the database, so that replicas with wrong clocks agree on what has expired (decisions.md, Time).
 *
 * It is Effect's clock plus an offset to `clock_timestamp()`. The offset is measured at the start, every minute, and
 * again when another server answers, or when wall clock and monotonic clock diverge by more than a second (the clock was
 * set, or the machine slept).
 * Each operation takes one instant when it starts and passes it to every statement; no statement calls `now()`.
 */
import { Clock, Context, Effect, Layer, type Option, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { firstRow } from "../sql/Rows.ts"
import { Database } from "./Database.ts"
import { persistence } from "./Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"

interface Measurement {
  /** Milliseconds to add to the local wall clock. */
  readonly offset: number
  /** Wall clock minus monotonic clock at the time of the measurement, in milliseconds. */
  readonly drift: number
  /** Whose clock it was. */
  readonly server: string | undefined
}

const local = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

export class DatabaseClock extends Context.Service<
  DatabaseClock,
  {
    readonly now: Effect.Effect<Date, SharedRefusal<"bridge_persistence_error">>
    /** `now` if the offset is known; never queries the database. */
    readonly nowIfKnown: Effect.Effect<Option.Option<Date>>
    /** How many milliseconds the database's clock is ahead of this process's. */
    readonly offset: Effect.Effect<number, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/database/DatabaseClock") {
  static readonly layer = Layer.effect(
    DatabaseClock,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { server } = yield* Database
      let latest: Measurement | undefined

      const measure = Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const before = server()
        const sent = clock.currentTimeMillisUnsafe()
        const at = yield* readClock(sql)
        const received = clock.currentTimeMillisUnsafe()
        latest = {
          offset: at.getTime() - (sent + received) / 2,
          drift: driftOf(clock),
          server: before ?? server()
        }
        return latest
      }).pipe(persistence)

      /** Undefined if the server has changed, or wall clock and monotonic clock have diverged, since the measurement. */
      const known = (clock: Clock.Clock) => {
        if (latest === undefined || latest.server !== server()) return undefined
        return Math.abs(driftOf(clock) - latest.drift) <= 1000 ? latest : undefined
      }
      const corrected = (clock: Clock.Clock, { offset }: Measurement) =>
        new Date(Math.round(clock.currentTimeMillisUnsafe() + offset))

      const withMeasurement = <A>(f: (clock: Clock.Clock, measured: Measurement) => A) =>
        Effect.clockWith((clock) => {
          const measured = known(clock)
          return measured === undefined
            ? Effect.map(measure, (measured) => f(clock, measured))
            : Effect.succeed(f(clock, measured))
        })
      const offset = withMeasurement((_, measured) => measured.offset)
      const now = withMeasurement(corrected)
      const nowIfKnown = Effect.clockWith((clock) => {
        const measured = known(clock)
        return measured === undefined ? Effect.succeedNone : Effect.succeedSome(corrected(clock, measured))
      })

      yield* measure.pipe(Effect.ignore, Effect.repeat(Schedule.spaced("1 minute")), Effect.forkScoped)
      return { now, nowIfKnown, offset }
    })
  )

  /** Effect's clock without correction, so that TestClock decides what has expired. */
  static readonly layerLocal = Layer.succeed(DatabaseClock, {
    now: local,
    nowIfKnown: Effect.asSome(local),
    offset: Effect.succeed(0)
  })
}

/** Wall clock minus monotonic clock, in milliseconds. */
const driftOf = (clock: Clock.Clock) =>
  clock.currentTimeMillisUnsafe() - Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)

const readClock = (sql: SqlClient.SqlClient) =>
  firstRow(Schema.Struct({ at: Schema.Date }))(sql`select clock_timestamp() as at`).pipe(
    Effect.flatMap((row) => Effect.orDie(Effect.fromOption(row))),
    Effect.map(({ at }) => at)
  )
