/** How failures of the database are answered: what is tried again, and what is not (decisions.md, Database outages). */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Option } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { persistence, sharedPersistence, untilSettled } from "../../../src/platform/database/Persistence.ts"
import { limitTransactions } from "../../../src/platform/database/Transactions.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

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
      for (const answered of [persistence, sharedPersistence]) {
        assert.strictEqual(yield* answered(failing(reason, times).work), "done")
        const { ran, work } = failing(reason, times + 1)
        assert.strictEqual((yield* Effect.flip(answered(work)))._tag, "bridge_persistence_error")
        assert.strictEqual(ran.times, times + 1)
      }
    })
  )

  it.effect("is tried again twice when a row that it refers to was erased, and then is a defect", () =>
    Effect.gen(function* () {
      const erased = new SqlError.ConstraintError({ ...fields, cause: { code: "23503" } })
      assert.strictEqual(yield* persistence(failing(erased, 2).work), "done")
      const { ran, work } = failing(erased, 3)
      assert.isTrue(Exit.hasDies(yield* Effect.exit(persistence(work))))
      assert.strictEqual(ran.times, 3)
    })
  )

  it.effect("is not tried again when it violates another constraint", () =>
    Effect.gen(function* () {
      const { ran, work } = failing(new SqlError.ConstraintError({ ...fields, cause: { code: "23514" } }), 1)
      assert.isTrue(Exit.hasDies(yield* Effect.exit(persistence(work))))
      assert.strictEqual(ran.times, 1)
    })
  )

  it.effect("is not tried again when the connection was lost: it may have acted", () =>
    Effect.gen(function* () {
      const { ran, work } = failing(new SqlError.ConnectionError({ ...fields, cause: new Error("closed") }), 1)
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

/** A client whose connection answers each statement with the next of its answers, and then with success. */
const scripted = Effect.fnUntraced(function* (
  answers: Readonly<Record<string, ReadonlyArray<Effect.Effect<unknown, SqlError.SqlError>>>>
) {
  const sent: Array<string> = []
  const left = new Map(Object.entries(answers).map(([statement, all]) => [statement, [...all]]))
  const executeRaw = (statement: string) =>
    Effect.suspend(() => {
      sent.push(statement)
      return left.get(statement)?.shift() ?? Effect.succeed({ command: statement })
    })
  const client = yield* SqlClient.make({
    acquirer: Effect.succeed({ executeRaw } as unknown as SqlConnection.Connection),
    compiler: PgClient.makeCompiler(),
    driver: "scripted",
    spanAttributes: []
  }).pipe(Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make))
  return { sent, sql: limitTransactions(client, "5 seconds") }
})

const canceled = Effect.fail(new SqlError.SqlError({ reason: new SqlError.StatementTimeoutError(fields) }))
const lost = Effect.fail(new SqlError.SqlError({ reason: new SqlError.ConnectionError(fields) }))

describe("a transaction", () => {
  it.effect.each([
    ["is sent once more if a late cancel request hit it", [canceled], 2],
    ["is not sent a third time", [canceled, canceled], 2],
    ["is not sent again if it failed otherwise", [lost], 1]
  ] as const)("that fails ends with its own error; its ROLLBACK %s", ([, answers, times]) =>
    Effect.gen(function* () {
      const { sent, sql } = yield* scripted({ ROLLBACK: answers })
      assert.strictEqual(yield* Effect.flip(sql.withTransaction(Effect.fail("refused"))), "refused")
      assert.deepStrictEqual(sent, ["BEGIN", ...Array.from({ length: times }, () => "ROLLBACK")])
    })
  )

  it.effect("within another one is undone to its savepoint alone, once more after a late cancel request", () =>
    Effect.gen(function* () {
      const undo = "ROLLBACK TO SAVEPOINT inner_1"
      const { sent, sql } = yield* scripted({ [undo]: [canceled] })
      const inner = sql.withTransaction(Effect.fail("refused"))
      assert.strictEqual(yield* sql.withTransaction(Effect.flip(inner)), "refused")
      assert.deepStrictEqual(sent, ["BEGIN", "SAVEPOINT inner_1", undo, undo, "COMMIT"])
    })
  )

  it.effect.each(["BEGIN", "SAVEPOINT inner_1", "COMMIT"])("fails if %s is not answered within its limit", (silent) =>
    Effect.gen(function* () {
      const { sql } = yield* scripted({ [silent]: [Effect.never] })
      const fiber = yield* Effect.forkChild(sql.withTransaction(sql.withTransaction(Effect.void)))
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { reason } = yield* Effect.flip(Fiber.join(fiber))
      assert.strictEqual(reason._tag, "ConnectionError")
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
