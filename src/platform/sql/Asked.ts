/** What one request asks for, or several that share a statement (Together.ts), as the rows of a clause. */
import { Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * Selects a row for each request: its place, from 1, and its values in columns of these types. Of several requests with the
 * same `unique` value only the first gets a row, so that a statement changes nothing twice.
 */
export const asked = <Name extends string>(
  sql: SqlClient.SqlClient,
  types: Readonly<Record<Name, string>>,
  unique: Name,
  all: ReadonlyArray<Readonly<Record<Name, unknown>>>
) => {
  const names = Object.keys(types) as Array<Name>
  if (all.length === 1) {
    const [only] = all
    return sql`
      select 1 as place, ${sql.csv(names.map((name) => sql`${only![name]}::${sql.literal(`${types[name]} as ${name}`)}`))}`
  }
  // A range that holds for every row makes PostgreSQL expect one row, and plan as for one.
  return sql`
      select distinct on (${sql.literal(unique)}) *
        from unnest(${sql.csv(
          names.map((name) => sql`${all.map((each) => each[name])}::${sql.literal(`${types[name]}[]`)}`)
        )}) with ordinality as asked (${sql.literal(names.join(", "))}, place)
       where place between 1 and 1000
       order by ${sql.literal(unique)}, place`
}

/** Whether a statement passes over rows that another one has locked, or waits for them. Nobody waits for somebody else's. */
export type Locking = "skip locked" | ""

export const Placed = Schema.Struct({ place: Schema.Int })

/** The row of each of so many requests, in their order. */
export const inPlace =
  (count: number) =>
  <Row extends typeof Placed.Type>(found: ReadonlyArray<Row>) => {
    const placed = Array.from({ length: count }, () => Option.none<Row>())
    for (const row of found) placed[row.place - 1] = Option.some(row)
    return placed
  }
