/** The database clock: replicas with wrong clocks agree on what has expired (decisions.md, Time). */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Option, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { connected, Database } from "../../../src/platform/database/Database.ts"
import { relay } from "../../support/network/Relay.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

/** The database clock of a process whose own clock says 1970, measured: no measurement is left under way. */
const clock = Effect.gen(function* () {
  const pool = connected(yield* TestDatabase, { poolSize: 1, pooler: false })
  const services = yield* Layer.build(Layer.fresh(Layer.provideMerge(DatabaseClock.layer, pool)))
  const of = Context.get(services, DatabaseClock)
  yield* of.now
  // The only connection is free once the measurement at the start has ended.
  yield* Context.get(services, SqlClient.SqlClient)`select 1`
  return of
})

/** The clock of a database that answers so. */
const answering = (answer: Effect.Effect<ReadonlyArray<{ readonly at: Date }>>) => {
  const given = Layer.mergeAll(
    Layer.succeed(SqlClient.SqlClient, (() => answer) as unknown as SqlClient.SqlClient),
    Layer.succeed(Database, { server: () => "one" } as Database["Service"])
  )
  return Effect.map(Layer.build(Layer.fresh(DatabaseClock.layer.pipe(Layer.provide(given)))), (services) =>
    Context.get(services, DatabaseClock)
  )
}

const databaseTime = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ at: Date }>`select clock_timestamp() as at`
  return row!.at.getTime()
})

/** How far a time is outside those of the database before and after it was looked up, in milliseconds. */
const error = <E, R>(time: Effect.Effect<Date, E, R>) =>
  Effect.gen(function* () {
    const before = yield* databaseTime
    const now = (yield* time).getTime()
    return Math.min(now - before, 0) + Math.max(now - (yield* databaseTime), 0)
  })

const tolerance = 500

layer(TestDatabase.sql)("the database clock", (it) => {
  it.effect("has the database's time, whatever the clock of the process says", () =>
    Effect.gen(function* () {
      const now = Effect.flatMap(clock, (of) => of.now)
      assert.approximately(yield* error(now), 0, tolerance)
      const offset = Effect.flatMap(clock, (of) => Effect.map(of.offset, (ms) => new Date(ms)))
      assert.approximately(yield* error(offset), 0, tolerance)
    })
  )

  it.effect("has the time of the middle of the measurement, for the answer takes as long as the question", () =>
    Effect.gen(function* () {
      const ahead = 1_000_000_000
      const way = TestClock.adjust("2 seconds")
      const answered = Effect.gen(function* () {
        yield* way
        const at = new Date((yield* Clock.currentTimeMillis) + ahead)
        yield* way
        return [{ at }]
      })
      const of = yield* answering(answered)
      // The measurement at the start.
      while (Option.isNone(yield* of.nowIfKnown)) yield* Effect.yieldNow
      assert.strictEqual(yield* of.offset, ahead)
    })
  )

  it.effect("advances between two measurements", () =>
    Effect.gen(function* () {
      const earlier = Effect.gen(function* () {
        const of = yield* clock
        yield* TestClock.adjust("20 seconds")
        return new Date((yield* of.now).getTime() - 20_000)
      })
      assert.approximately(yield* error(earlier), 0, tolerance)
    })
  )

  it.effect("is measured again every minute", () =>
    Effect.gen(function* () {
      let measured = 0
      yield* answering(Effect.sync(() => (measured++, [{ at: new Date(0) }])))
      yield* TestClock.withLive(Effect.sleep("1 millis"))
      for (const [wait, times] of [
        ["0 millis", 1],
        ["59999 millis", 1],
        ["1 millis", 2],
        ["1 minute", 3]
      ] as const) {
        yield* TestClock.adjust(wait)
        assert.strictEqual(measured, times, wait)
      }
    })
  )

  it.effect("is right again after each measurement", () =>
    Effect.gen(function* () {
      const of = yield* clock
      const isRight = { until: (by: number) => Math.abs(by) < tolerance, times: 100 }
      // The measurement runs on its own fiber, with a connection of its own; the queries give it time to end. Without it
      // the error would grow by a minute each time.
      const wrong = Effect.andThen(TestClock.adjust("1 minute"), Effect.repeat(error(of.now), isRight))
      const last = yield* Effect.repeat(wrong, isRight)
      assert.approximately(last, 0, tolerance)
    })
  )

  it.effect("is measured again at once when the process's clock is set back", () =>
    Effect.gen(function* () {
      const of = yield* clock
      assert.approximately(yield* error(Effect.andThen(TestClock.setTime(-3_600_000), of.now)), 0, tolerance)
    })
  )

  it.effect("is measured again at once when another server answers", () =>
    Effect.gen(function* () {
      let server = "first"
      const database = Layer.succeed(Database, { server: () => server } as Database["Service"])
      const of = Context.get(
        yield* Layer.build(Layer.fresh(DatabaseClock.layer.pipe(Layer.provide(database)))),
        DatabaseClock
      )
      yield* of.now
      yield* TestClock.adjust("20 seconds")
      assert.isTrue(Option.isSome(yield* of.nowIfKnown))
      server = "second"
      assert.isTrue(Option.isNone(yield* of.nowIfKnown))
      assert.approximately(yield* error(of.now), 0, tolerance)
    })
  )

  it.effect("is measured once more if another server has answered meanwhile", () =>
    Effect.gen(function* () {
      const said = ["first"]
      const server = () => (said.length > 1 ? said.shift()! : said[0]!)
      const database = Layer.succeed(Database, { server } as Database["Service"])
      const of = Context.get(
        yield* Layer.build(Layer.fresh(DatabaseClock.layer.pipe(Layer.provide(database)))),
        DatabaseClock
      )
      yield* of.now
      // Looked up, then measured, and asked for afterwards.
      said.splice(0, 1, "second", "second", "third")
      yield* of.now
      assert.isTrue(Option.isNone(yield* of.nowIfKnown))
    })
  )

  it.effect("ignores a correction of the process's clock by less than a second", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(10_000)
      const of = yield* clock
      const before = yield* of.offset
      yield* TestClock.setTime(9_001)
      assert.strictEqual(yield* of.offset, before)
    })
  )

  it.effect("has no time until the database was reached once", () =>
    Effect.gen(function* () {
      const { database, host, port, username } = yield* TestDatabase
      const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
      yield* line.cut
      const pool = connected({ host: "127.0.0.1", port: line.port, username, database }, { poolSize: 2, pooler: false })
      const scope = yield* Scope.Scope
      const services = yield* Layer.build(Layer.fresh(DatabaseClock.layer.pipe(Layer.provide(pool)))).pipe(
        Scope.provide(scope)
      )
      const of = Context.get(services, DatabaseClock)
      assert.strictEqual((yield* Effect.flip(of.now))._tag, "bridge_persistence_error")
      assert.isTrue(Option.isNone(yield* of.nowIfKnown))
      assert.approximately(yield* error(Effect.andThen(line.heal, of.now)), 0, tolerance)
      assert.isTrue(Option.isSome(yield* of.nowIfKnown))
    })
  )
})
