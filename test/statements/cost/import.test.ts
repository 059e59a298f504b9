/** What the check of an import costs in a database that has no statistics of the rows yet. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as TransferStore from "../../../src/agents/transfer/TransferStore.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const project_id = "00000000-0000-7000-8000-000000000001"
const imported = 2_000

layer(TestDatabase.sql, { timeout: 60_000 })("an import", (it) => {
  it.effect("reads no entry to check that it refers to none that is missing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into project (project_id, name, created_at) values (${project_id}::uuid, 'Large', now())`
      const { dangling, read } = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`
            insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
            select ${project_id}::uuid, gen_random_uuid(), 'note', 'Entry', 'Entry', '{}', 'x', 'contributor', now()
              from generate_series(1, ${imported})`
          const before = yield* readRows(sql)
          const dangling = yield* TransferStore.make(sql).dangling(project_id)
          return { dangling, read: (yield* readRows(sql)) - before }
        })
      )
      assert.deepStrictEqual(dangling, [])
      assert.strictEqual(read, 0)
    })
  )
})

/** Rows that this transaction has read, by the table or by an index. */
const readRows = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ rows: number }>`
      select (pg_stat_get_xact_tuples_returned('memory_entry'::regclass)
              + pg_stat_get_xact_tuples_fetched('memory_entry'::regclass))::int as rows`,
    ([row]) => row!.rows
  )
