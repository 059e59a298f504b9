/** A statement that finds at most one row for a token: for one token, or for several at once (Together.ts). */
import { Effect, type Option, type Schema } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import { onlyRow } from "./Rows.ts"

export interface Asked {
  readonly token_hash: Uint8Array
  readonly now: Date
}

export interface Lookup<A> {
  readonly one: (asked: Asked) => Effect.Effect<Option.Option<A>, SqlError.SqlError>
  /** Answers in the order of `all`. */
  readonly each: (all: ReadonlyArray<Asked>) => Effect.Effect<ReadonlyArray<Option.Option<A>>, SqlError.SqlError>
}

/** `select` gets the two values, or the columns that hold them; it selects no column `place`. */
export const lookup = <Row extends Schema.ConstraintDecoder<unknown>>(
  sql: SqlClient.SqlClient,
  row: Row,
  select: (token_hash: Uint8Array | Statement.Fragment, now: Date | Statement.Fragment) => Statement.Statement<unknown>
): Lookup<Row["Type"]> => {
  const only = onlyRow(row)
  const one = ({ now, token_hash }: Asked) => Effect.flatMap(select(token_hash, now), only)
  // With `offset 0` PostgreSQL plans what is inside as for one token. Without, it may plan one join over whole tables.
  const each = (all: ReadonlyArray<Asked>) =>
    Effect.flatMap(
      sql<{ readonly place: number }>`
        select asked.place::int as place, found.*
          from unnest(${all.map(({ token_hash }) => token_hash)}::bytea[], ${all.map(({ now }) => now)}::timestamptz[])
               with ordinality as asked (token_hash, now, place)
         cross join lateral (${select(sql`asked.token_hash`, sql`asked.now`)}
        offset 0) as found`,
      (found) => {
        const placed = all.map((): Array<unknown> => [])
        for (const row of found) placed[row.place - 1]!.push(row)
        return Effect.forEach(placed, only)
      }
    )
  return { one, each }
}
