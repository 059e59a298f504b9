/** Every row of the database, for tests which assert that nothing changed or that a secret is not stored. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Table -> its rows as text, sorted. bytea values are hexadecimal. A partition's rows are those of its table. */
const rowsOf = (isWanted: (table: string) => boolean) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const tables = yield* sql<{ name: string }>`
      select relname as name
        from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
       order by relname`
    const wanted = tables.map(({ name }) => name).filter(isWanted)
    if (wanted.length === 0) return {}
    // One statement: a round trip for each table would take longer than the tests themselves.
    const queries = wanted.map((name) => `select '${name}' as name, t::text as row from "${name}" t`)
    const found = yield* sql.unsafe<{ name: string; row: string }>(`${queries.join(" union all ")} order by row`)
    const rows = new Map(wanted.map((name): [string, Array<string>] => [name, []]))
    for (const { name, row } of found) rows.get(name)!.push(row)
    return Object.fromEntries(rows)
  })

export const allRows = rowsOf(() => true)

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
  rowsOf((table) => !table.startsWith("audit_")),
  (tables) => new Set(Object.entries(tables).flatMap(([name, rows]) => rows.map((row) => `${name} ${row}`)))
)

const without = (rows: ReadonlySet<string>, others: ReadonlySet<string>) => [...rows].filter((row) => !others.has(row))
