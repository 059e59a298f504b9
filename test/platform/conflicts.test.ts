/** How failures of the database are answered: what is tried again, and what is not (decisions.md, Database outages). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { persistence, untilSettled } from "../../src/platform/database/Persistence.ts"
import { limitTransactions } from "../../src/platform/database/Transactions.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"

const fields = { cause: { code: "40P01" }, operation: "execute" }
const conflicts = [
  { what: "a deadlock", reason: new SqlError.DeadlockError(fields), times: 2 },
  { what: "a serialization failure", reason: new SqlError.SerializationError(fields), times: 9 }
]

/** Fails with the reason as often as given, and counts its runs. */
const failing = (reason: SqlError.SqlErrorReason, times: number) => {
  const ran = { times: 0 }
  const work = Effect.suspend(() =>
    ++ran.times > times ? Effect.succeed("done") : Effect.fail(new SqlError.SqlError({ reason }))
  )
  return { ran, work }
}

describe("an operation of the database", () => {
  it.effect.each(conflicts)("is tried again after $what, $times times", ({ reason, times }) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* persistence(failing(reason, times).work), "done")
      const { ran, work } = failing(reason, times + 1)
      assert.strictEqual((yield* Effect.flip(persistence(work)))._tag, "bridge_persistence_error")
      assert.strictEqual(ran.times, times + 1)
    })
  )

  it.effect("is not tried again when the connection was lost: it may have acted", () =>
    Effect.gen(function* () {
      const { ran, work } = failing(new SqlError.ConnectionError(fields), 1)
      assert.strictEqual((yield* Effect.flip(persistence(work)))._tag, "bridge_persistence_error")
      assert.strictEqual(ran.times, 1)
    })
  )

  it.effect("gives up after five attempts that neither act nor find a reason", () =>
    Effect.gen(function* () {
      const ran = { times: 0 }
      const none = Effect.sync(() => (ran.times++, Option.none<string>()))
      assert.strictEqual((yield* Effect.flip(untilSettled(none)))._tag, "bridge_persistence_error")
      assert.strictEqual(ran.times, 5)
    })
  )
})

layer(TestDatabase.sql)("a transaction", (it) => {
  it.effect("that PostgreSQL rolls back at its COMMIT is a defect, not a success", () =>
    Effect.gen(function* () {
      const sql = limitTransactions(yield* SqlClient.SqlClient, "5 seconds")
      const swallowing = Effect.andThen(
        sql`update service_instance set instance_id = gen_random_uuid()`,
        Effect.ignore(sql`select 1 / 0`)
      )
      const before = yield* sql`select instance_id from service_instance`
      const exit = yield* Effect.exit(sql.withTransaction(swallowing))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.deepStrictEqual(yield* sql`select instance_id from service_instance`, before)
    })
  )
})
