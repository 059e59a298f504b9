/**
 * The time of the database, so that replicas with wrong clocks agree on what has expired (decisions.md, Time).
 *
 * It is Effect's clock plus an offset to `clock_timestamp()`. The offset is measured at the start, every minute, and
 * again when another server answers, or when wall clock and monotonic clock diverge by more than a second (the clock was
 * set, or the machine slept).
 * Each operation takes one instant when it starts and passes it to every statement; no statement calls `now()`.
 */
import { Clock, Context, Effect, Layer, type Option, Ref, Schedule, Schema } from "effect"
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
      const latest = yield* Ref.make<Measurement | undefined>(undefined)

      const measure = Effect.gen(function* () {
        const before = server()
        const sent = yield* Clock.currentTimeMillis
        const at = yield* readClock(sql)
        const received = yield* Clock.currentTimeMillis
        const measured = {
          offset: at.getTime() - (sent + received) / 2,
          drift: yield* driftOf(received),
          server: before ?? server()
        }
        yield* Ref.set(latest, measured)
        return measured
      }).pipe(persistence)

      /** Undefined if the server has changed, or wall clock and monotonic clock have diverged, since the measurement. */
      const known = Effect.gen(function* () {
        const last = yield* Ref.get(latest)
        if (last === undefined || last.server !== server()) return undefined
        const drift = yield* Effect.flatMap(Clock.currentTimeMillis, driftOf)
        return Math.abs(drift - last.drift) <= 1000 ? last : undefined
      })
      const current = Effect.flatMap(known, (measured) => (measured === undefined ? measure : Effect.succeed(measured)))

      const offset = Effect.map(current, (measured) => measured.offset)
      const corrected = Effect.fnUntraced(function* (ahead: number) {
        return new Date(Math.round((yield* Clock.currentTimeMillis) + ahead))
      })
      const now = Effect.flatMap(offset, corrected)
      const nowIfKnown = Effect.flatMap(known, (measured) =>
        measured === undefined ? Effect.succeedNone : Effect.asSome(corrected(measured.offset))
      )

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

const driftOf = (wall: number) => Effect.map(Clock.monotonicTimeNanos, (nanos) => wall - Number(nanos / 1_000_000n))

const readClock = (sql: SqlClient.SqlClient) =>
  firstRow(Schema.Struct({ at: Schema.Date }))(sql`select clock_timestamp() as at`).pipe(
    Effect.flatMap((row) => Effect.orDie(Effect.fromOption(row))),
    Effect.map(({ at }) => at)
  )
