/** A pooler in transaction mode may run each transaction in another session, so no state may stay in a session. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { connected } from "../../src/platform/database/Database.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"

/** The session state that the only connection of a pool has after two statements. */
const kept = (pooler: boolean) =>
  Effect.gen(function* () {
    const address = yield* TestDatabase
    const sessionState = SqlClient.SqlClient.use(
      (sql) => sql<{ prepared: number; timeout: string; zone: string }>`
        select count(*)::int as prepared, current_setting('statement_timeout') as timeout,
               current_setting('timezone') as zone
          from pg_prepared_statements`
    )
    return yield* Effect.andThen(sessionState, sessionState).pipe(
      Effect.map(([row]) => row!),
      Effect.provide(connected(address, { poolSize: 1, pooler }))
    )
  })

layer(TestDatabase.layer)("a connection", (it) => {
  it.effect("keeps prepared statements and timeouts", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* kept(false), { prepared: 1, timeout: "5s", zone: "UTC" })
    })
  )

  it.effect("through a pooler keeps neither", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* kept(true), { prepared: 0, timeout: "0", zone: "UTC" })
    })
  )
})
