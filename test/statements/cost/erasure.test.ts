/** What an erasure costs in a project with much beside what goes. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import * as PurgeStore from "../../../src/agents/purge/PurgeStore.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const project_id = "00000000-0000-7000-8000-000000000001"

layer(TestDatabase.sql, { timeout: 60_000 })("an erasure of a thousand entries", (it) => {
  it.effect("reads a few rows for each, though foreign keys refer to entries from entries and tasks", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into project (project_id, name, created_at) values (${project_id}::uuid, 'Large', now()) on conflict do nothing`
      yield* sql`
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        select ${project_id}::uuid, gen_random_uuid(), 'note', 'Entry', 'Entry', '{}', 'x', 'contributor', now()
          from generate_series(1, 3000)`
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
        select ${project_id}::uuid, gen_random_uuid(), 'Task', '', 'open', 2, '{}', 1, 'x', now(), now()
          from generate_series(1, 3000)`
      yield* sql`vacuum analyze memory_entry, task`.unprepared
      const ids = (yield* sql<{ id: string }>`select id from memory_entry limit 1000`).map(({ id }) => id)
      const read = Effect.map(
        sql<{ rows: number }>`
          select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::int as rows
            from unnest(array['memory_entry', 'task']::regclass[]) as oid`,
        ([row]) => row!.rows
      )
      const rows = yield* sql.withTransaction(
        Effect.gen(function* () {
          const before = yield* read
          yield* PurgeStore.make(sql).dropEntries(project_id, ids)
          return (yield* read) - before
        })
      )
      assert.isAtMost(rows, 10_000)
    })
  )

  it.effect("reads each remembered result once, as one of a single entry does", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into project (project_id, name, created_at) values (${project_id}::uuid, 'Large', now()) on conflict do nothing`
      yield* sql`
        insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
        select ${project_id}::uuid, 'task_note', n::text, sha256('x'),
               json_build_object('id', gen_random_uuid(), 'text', repeat('A note ', 80)), now()
          from generate_series(1, 2000) n`
      const ids = Array.from({ length: 1000 }, () => randomUUID())
      const took = Effect.fnUntraced(function* (some: ReadonlyArray<string>) {
        const startedAt = performance.now()
        yield* PurgeStore.make(sql).dropResults(project_id, some)
        return performance.now() - startedAt
      })
      const ofOne = Math.min(...(yield* Effect.replicateEffect(took(ids.slice(0, 1)), 3)))
      const ofAll = Math.min(...(yield* Effect.replicateEffect(took(ids), 3)))
      // A thousand look-ups in each result take over a hundred times as long.
      assert.isBelow(ofAll / ofOne, 20)
    })
  )
})
