/**
 * The sessions of the pool: what they keep, how many there are, and for how long. A pooler in transaction mode may run each
 * transaction in another session, so no state may stay in one.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { connected, Database } from "../../../src/platform/database/Database.ts"
import { waitingForLock } from "../../support/database/Locks.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const pool = (poolSize: number, pooler = false) =>
  Layer.unwrap(Effect.map(TestDatabase, (address) => Layer.fresh(connected(address, { poolSize, pooler }))))

const sessionState = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ prepared: number; statement: string; lock: string; idle: string; zone: string }>`
      select count(*)::int as prepared, current_setting('statement_timeout') as statement,
             current_setting('lock_timeout') as lock,
             current_setting('idle_in_transaction_session_timeout') as idle, current_setting('timezone') as zone
        from pg_prepared_statements`,
    ([row]) => row!
  )
)

/** The session state that the only connection of a pool has after two statements. */
const kept = (pooler: boolean) =>
  Effect.provide(Effect.andThen(sessionState, sessionState), pool(1, pooler), { local: true })

const session = SqlClient.SqlClient.use((sql) =>
  Effect.map(sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.02)`, ([row]) => row!.pid)
)

layer(TestDatabase.layer)("a connection", (it) => {
  it.effect("keeps prepared statements and timeouts", () =>
    Effect.gen(function* () {
      const timeouts = { statement: "5s", lock: "2s", idle: "10s" }
      assert.deepStrictEqual(yield* kept(false), { prepared: 1, ...timeouts, zone: "UTC" })
    })
  )

  it.effect("through a pooler keeps neither", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* kept(true), { prepared: 0, statement: "0", lock: "0", idle: "0", zone: "UTC" })
    })
  )

  it.effect("is one of as many as the pool may have, however many statements wait", () =>
    Effect.gen(function* () {
      const sessions = yield* Effect.replicateEffect(session, 6, { concurrency: "unbounded" })
      assert.strictEqual(new Set(sessions).size, 2)
    }).pipe(Effect.provide(pool(2), { local: true }))
  )

  it.effect("is replaced after ten minutes, however busy it is", () =>
    Effect.gen(function* () {
      const first = yield* session
      for (let minute = 0; minute < 10; minute++) {
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual(yield* session, first)
      }
      yield* TestClock.adjust("10 seconds")
      assert.notStrictEqual(yield* session, first)
    }).pipe(Effect.provide(pool(1), { local: true }))
  )

  it.effect("for maintenance has no timeouts, and ten minutes in all", () =>
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      assert.deepInclude(yield* dedicated(sessionState), { statement: "0", lock: "0", idle: "0", zone: "UTC" })
      const working = yield* Effect.forkChild(dedicated(Effect.never), { startImmediately: true })
      yield* TestClock.adjust("599 seconds")
      assert.isUndefined(working.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.hasDies(yield* Fiber.await(working)))
    }).pipe(Effect.provide(pool(1), { local: true }))
  )

  it.effect("for maintenance has a minute for a COMMIT, which may have a whole import to write", () =>
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const sql = yield* SqlClient.SqlClient
      yield* sql`select pg_advisory_lock(1)`
      const slowToCommit = Effect.flatMap(SqlClient.SqlClient, (own) =>
        Effect.forEach(
          [
            "create temporary table written (n int)",
            `create function pg_temp.wait() returns trigger language plpgsql as
             $$ begin perform pg_advisory_xact_lock(1); return null; end $$`,
            `create constraint trigger waits after insert on written deferrable initially deferred
               for each row execute function pg_temp.wait()`,
            "insert into written values (1)"
          ],
          (statement) => own.unsafe(statement).unprepared
        ).pipe(own.withTransaction)
      )
      const working = yield* Effect.forkChild(dedicated(slowToCommit))
      yield* waitingForLock
      yield* TestClock.adjust("59999 millis")
      assert.isUndefined(working.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const error = yield* Effect.flip(Fiber.join(working))
      assert.strictEqual(error.reason._tag, "ConnectionError")
    }).pipe(Effect.provide(pool(1), { local: true }))
  )
})
