/**
 * The time of the database, so that replicas with wrong clocks agree on what has expired.
 *
 * Effect's clock corrected by an offset to `clock_timestamp()`: measured at start, every minute, and at once when wall
 * and monotonic time part by more than a second (a clock that was set, a machine that slept). Each operation takes one
 * instant when it starts and passes it to every statement; no statement calls `now()`.
 */
import { Clock, Context, Effect, Layer, type Option, Ref, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { firstRow } from "../sql/Rows.ts"
import { persistence } from "./Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"

interface Measurement {
  /** Milliseconds to add to the local wall clock. */
  readonly offset: number
  /** Wall clock minus monotonic clock when it was measured, in milliseconds. */
  readonly drift: number
}

const local = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

export class DatabaseClock extends Context.Service<
  DatabaseClock,
  {
    readonly now: Effect.Effect<Date, SharedRefusal<"bridge_persistence_error">>
    /** `now` where it is known without asking the database. */
    readonly told: Effect.Effect<Option.Option<Date>>
    /** Milliseconds that the database is ahead of this process. */
    readonly offset: Effect.Effect<number, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/database/DatabaseClock") {
  static readonly layer = Layer.effect(
    DatabaseClock,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const latest = yield* Ref.make<Measurement | undefined>(undefined)

      const measure = Effect.gen(function* () {
        const sent = yield* Clock.currentTimeMillis
        const at = yield* readClock(sql)
        const received = yield* Clock.currentTimeMillis
        const measured = { offset: at.getTime() - (sent + received) / 2, drift: yield* driftOf(received) }
        yield* Ref.set(latest, measured)
        return measured
      }).pipe(persistence)

      /** Absent when the clocks have parted since. */
      const known = Effect.gen(function* () {
        const last = yield* Ref.get(latest)
        if (last === undefined) return undefined
        const drift = yield* Effect.flatMap(Clock.currentTimeMillis, driftOf)
        return Math.abs(drift - last.drift) <= 1000 ? last : undefined
      })
      const current = Effect.flatMap(known, (measured) => (measured === undefined ? measure : Effect.succeed(measured)))

      const offset = Effect.map(current, (measured) => measured.offset)
      const corrected = Effect.fnUntraced(function* (ahead: number) {
        return new Date(Math.round((yield* Clock.currentTimeMillis) + ahead))
      })
      const now = Effect.flatMap(offset, corrected)
      const told = Effect.flatMap(known, (measured) =>
        measured === undefined ? Effect.succeedNone : Effect.asSome(corrected(measured.offset))
      )

      yield* measure.pipe(Effect.ignore, Effect.repeat(Schedule.spaced("1 minute")), Effect.forkScoped)
      return { now, told, offset }
    })
  )

  /** Effect's clock as it is, so that TestClock decides what has expired. */
  static readonly layerLocal = Layer.succeed(DatabaseClock, {
    now: local,
    told: Effect.asSome(local),
    offset: Effect.succeed(0)
  })
}

const driftOf = (wall: number) => Effect.map(Clock.monotonicTimeNanos, (nanos) => wall - Number(nanos / 1_000_000n))

const readClock = (sql: SqlClient.SqlClient) =>
  firstRow(Schema.Struct({ at: Schema.Date }))(sql`select clock_timestamp() as at`).pipe(
    Effect.flatMap((row) => Effect.orDie(Effect.fromOption(row))),
    Effect.map(({ at }) => at)
  )
