/** Which failures of the database pass, and what a log line says about them. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SqlError } from "effect/sql"
import { describe, persistence } from "../../../src/platform/database/Persistence.ts"

const lost = (cause: unknown) =>
  describe(new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, operation: "execute" }) }))

it("a connection that ended without an SQLSTATE is described in the words of the driver", () => {
  const { cause, sqlstate } = lost(new Error("Connection terminated unexpectedly"))
  assert.deepStrictEqual([sqlstate, cause], ["", "Connection terminated unexpectedly"])
})

it("a failure with a code is described by the code alone, because PostgreSQL's messages can contain values", () => {
  for (const code of ["ECONNREFUSED", "57P01"]) {
    const facts = lost(Object.assign(new Error("secret"), { code }))
    assert.strictEqual(facts.sqlstate, code)
    assert.notInclude(JSON.stringify(facts), "secret")
  }
})

it("a row that was there before is described by the name of the constraint", () => {
  const reason = new SqlError.UniqueViolation({ cause: new Error("secret"), constraint: "project_pkey" })
  assert.strictEqual(describe(new SqlError.SqlError({ reason })).constraint, "project_pkey")
})

/** What a statement ends with that failed with this SQLSTATE. */
const ended = (code: string) => {
  const cause = Object.assign(new Error("failed"), { code })
  return Effect.exit(persistence(Effect.fail(new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause }) }))))
}

for (const [what, code] of [
  ["a lost connection", "08006"],
  ["a full disk", "53100"],
  ["too little memory", "53200"],
  ["too many connections", "53300"],
  ["a shutdown", "57P01"],
  ["a failed disk", "58030"],
  ["a refused login", "28P01"],
  ["a missing database", "3D000"],
  ["a standby", "25006"],
  ["a transaction that idled too long", "25P03"],
  ["a transaction that took too long", "25P04"],
  ["a database that accepts no connections", "55000"],
  ["a missing table", "42P01"],
  ["a missing column", "42703"],
  ["a missing schema", "3F000"]
] as const) {
  it.effect(`${what} (${code}) passes: the caller may try again`, () =>
    Effect.gen(function* () {
      const exit = yield* ended(code)
      assert.isTrue(Exit.hasFails(exit) && !Exit.hasDies(exit))
    })
  )
}

it.effect("a wrong statement is a defect", () =>
  Effect.gen(function* () {
    for (const code of ["42601", "22001", "25001", "25P02", ""]) assert.isTrue(Exit.hasDies(yield* ended(code)), code)
  })
)
