/** The places where no secret may be. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { inject } from "vitest"
import { utf8 } from "./Canaries.ts"
import { allRows } from "../database/Rows.ts"

/** PostgreSQL's files: the database, the shared ones, the log, and the WAL since `start`. */
export const filesSince = Effect.fnUntraced(function* (start: string) {
  const sql = yield* SqlClient.SqlClient
  const { directory, log } = inject("cluster")
  yield* sql.unsafe("checkpoint").unprepared
  const [row] = yield* sql<{ folder: string; first: string; last: string }>`
    select 'base/' || oid as folder, pg_walfile_name(${start}::pg_lsn) as first,
           pg_walfile_name(pg_current_wal_lsn()) as last
      from pg_database
     where datname = current_database()`
  const { first, folder, last } = row!
  const within = (path: string) => readdirSync(join(directory, path)).map((name) => join(path, name))
  const wal = within("pg_wal").filter((path) => path >= join("pg_wal", first) && path <= join("pg_wal", last))
  const files = [...within(folder), ...within("global").filter((path) => !path.endsWith(".pid")), ...wal]
  assert.isNotEmpty(wal)
  return {
    ...Object.fromEntries(files.map((file) => [file, readFileSync(join(directory, file))])),
    log: readFileSync(log)
  }
})

export const rowsAsText = Effect.map(allRows, (tables) => {
  const places = Object.entries(tables).map(([name, rows]) => [`table ${name}`, utf8(rows.join("\n"))] as const)
  return Object.fromEntries(places)
})

export const lsn = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ lsn: string }>`select pg_current_wal_lsn()::text as lsn`
  return row!.lsn
})
