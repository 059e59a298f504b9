/** What a log line says about a failure of the database. */
import { assert, it } from "@effect/vitest"
import { SqlError } from "effect/sql"
import { describe } from "../../src/platform/database/Persistence.ts"

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
