/** What the sweeps delete: every row ends and expires, as if 500 days had passed, and the sweeps run. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sweeps } from "../../../../src/App.ts"
import { DatabaseClock } from "../../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../../src/platform/settings/Settings.ts"
import type { beside } from "../harness.ts"

type Beside = Effect.Success<ReturnType<typeof beside>>

/** The tables whose rows expire. Those of the audit log go by months, which nobody can make older. */
const expiring = [
  "bridge_rotation",
  "enrollment_challenge",
  "oauth_access_token",
  "oauth_code",
  "oauth_refresh_token",
  "oauth_request",
  "idempotency_record"
]

export const countRows = ({ sql }: Pick<Beside, "sql">, tables: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(tables, (table) =>
      Effect.map(sql<{ readonly n: number }>`select count(*)::int as n from ${sql(table)}`, ([row]) => row!.n)
    ),
    (counts): Readonly<Record<string, number>> => Object.fromEntries(tables.map((table, n) => [table, counts[n]!]))
  ).pipe(Effect.orDie)

/** How many rows each table had, and a sentence for each table that keeps some. */
export const agedAndSwept = Effect.fnUntraced(function* (on: Beside, more: ReadonlyArray<string> = []) {
  const { sql } = on
  const tables = [...expiring, ...more]
  const columns = yield* sql<{ readonly name: string; readonly earlier: string }>`
    select table_name as name,
           string_agg(format('%1$I = %1$I - interval ''500 days''', column_name), ', ') as earlier
      from information_schema.columns
     where table_schema = 'public'
       and data_type = 'timestamp with time zone'
       and is_generated = 'NEVER'
       and table_name not like 'audit%'
     group by table_name`
  const before = yield* countRows(on, tables)
  yield* Effect.forEach(columns, ({ earlier, name }) => sql.unsafe(`update ${name} set ${earlier}`), { discard: true })
  const sweep = Effect.repeat(sweepOnce(sweeps), { while: (hasMore) => hasMore }).pipe(
    Effect.provideContext(
      Context.make(SqlClient.SqlClient, sql).pipe(Context.merge(Context.pick(DatabaseClock, Settings)(on.services)))
    )
  )
  // Some rows can only go after the rows that refer to them.
  yield* Effect.andThen(sweep, sweep)
  const after = yield* countRows(on, tables)
  const violations = tables
    .filter((table) => after[table]! > 0)
    .map((table) => `${after[table]} of ${before[table]} rows of ${table} are never deleted`)
  return { before, violations }
}, Effect.orDie)
