/** Sweeps of rotation leave a Bridge alone that a request has locked, instead of waiting for it or overtaking it. */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sweeps } from "../../src/bridges/rotation/Sweeps.ts"
import { statementsOf } from "../../src/platform/database/Migrations.ts"
import { now, rotating, sqlNow } from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"

layer(TestDatabase.sql)("a Bridge that a request has locked", (it) => {
  const due = `set local session_replication_role = replica; ${rotating};
    update bridge_rotation set confirmation_expires_at = ${sqlNow};
    update bridge_token set expires_at = ${sqlNow} where state = 'active'`
  const sweep = (name: string) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const run = sweeps.find((one) => one.name === name)!.run(sql, now, 9)
      const swept = yield* sql.withTransaction(Effect.andThen(sql`set local lock_timeout = '1s'`, run))
      return swept.length
    })

  it.effect("is skipped by the sweeps, which find it again later", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const another = PgClient.layer({ ...(yield* TestDatabase), maxConnections: 1 })
      yield* sql.withTransaction(Effect.forEach(statementsOf(due), (statement) => sql.unsafe(statement).unprepared))
      for (const name of ["settle rotations", "settle tokens"]) {
        const whileLocked = Effect.andThen(
          sql`select from bridge_identity for no key update`,
          Effect.provide(sweep(name), another)
        )
        assert.strictEqual(yield* sql.withTransaction(whileLocked), 0, name)
        assert.strictEqual(yield* sweep(name), 1, name)
      }
    })
  )
})
