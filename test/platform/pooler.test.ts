/** A pooler in transaction mode hands each transaction to any session: nothing may be left in one (docs/scaling.md). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { connected } from "../../src/platform/database/Database.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"

/** What the one connection of a pool keeps between two statements. */
const kept = (pooler: boolean) =>
  Effect.gen(function* () {
    const address = yield* TestDatabase
    const look = SqlClient.SqlClient.use(
      (sql) => sql<{ prepared: number; timeout: string; zone: string }>`
        select count(*)::int as prepared, current_setting('statement_timeout') as timeout,
               current_setting('timezone') as zone
          from pg_prepared_statements`
    )
    return yield* Effect.andThen(look, look).pipe(
      Effect.map(([row]) => row!),
      Effect.provide(connected(address, { poolSize: 1, pooler }))
    )
  })

layer(TestDatabase.layer)("a connection", (it) => {
  it.effect("keeps statements and timeouts of its own", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* kept(false), { prepared: 1, timeout: "5s", zone: "UTC" })
    })
  )

  it.effect("to a pooler keeps neither", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* kept(true), { prepared: 0, timeout: "0", zone: "UTC" })
    })
  )
})
