/** Every row of the database, for tests that say "nothing changed" or look for something that must not be there. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Table -> its rows as text, in an order of their own. Bytes show as hex. */
export const allRows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ name: string }>`
    select table_name as name
      from information_schema.tables
     where table_schema = 'public'
     order by table_name`
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    Effect.map(
      sql<{ row: string }>`select t::text as row from ${sql(name)} t order by 1`,
      (found) => [name, found.map(({ row }) => row)] as const
    )
  )
  return Object.fromEntries(rows)
})

/** Without the audit log: a refusal may be counted there. */
export const state = Effect.map(allRows, (rows) => ({ ...rows, audit_event: undefined }))

/** Runs it and asserts that no row was added, changed or removed. */
export const unchanged = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = yield* state
    const result = yield* self
    assert.deepStrictEqual(yield* state, before)
    return result
  })
