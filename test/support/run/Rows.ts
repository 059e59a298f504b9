/** Every row of the database, for tests which assert that nothing changed or that a secret is not stored. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Table -> its rows as text, sorted. bytea values are hexadecimal. */
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

/** Runs the effect and asserts that no row was added, changed or removed; the audit log may count a refusal. */
export const unchanged = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = yield* state
    const result = yield* self
    const after = yield* state
    assert.deepStrictEqual([without(before, after), without(after, before)], [[], []], "[rows removed, rows added]")
    return result
  })

const state = Effect.map(
  allRows,
  (tables) =>
    new Set(
      Object.entries(tables)
        .filter(([name]) => !name.startsWith("audit_"))
        .flatMap(([name, rows]) => rows.map((row) => `${name} ${row}`))
    )
)

const without = (rows: ReadonlySet<string>, others: ReadonlySet<string>) => [...rows].filter((row) => !others.has(row))
