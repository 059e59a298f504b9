/** What reading the tasks of a large project costs, counted by PostgreSQL. */
import { assert, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as TaskStore from "../../../src/agents/tasks/TaskStore.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const project_id = "00000000-0000-7000-8000-000000000001"
const neighbour = "00000000-0000-7000-8000-000000000002"

layer(TestDatabase.sql, { timeout: 60_000 })("tasks of a large project", (it) => {
  it.effect("are counted in an index", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into project (project_id, name, created_at)
        select p::uuid, 'Large', now() from unnest(${[project_id, neighbour]}::text[]) p`
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at,
                          assignee, claimed_at, blocked_reason, blocked_kind, closed_at)
        select p.project_id, gen_random_uuid(), 'Task', repeat('body ', 50), s.status, 2, '{}', 1, 'x', now(), now(),
               case when s.status = 'in_progress' then 'ada' end, case when s.status = 'in_progress' then now() end,
               case when s.status = 'blocked' then 'Why?' end, s.kind, case when s.status = 'done' then now() end
          from project p, generate_series(1, 1000),
               (values ('open', null), ('open', null), ('in_progress', null), ('blocked', 'other'), ('blocked', 'decision'),
                       ('done', null)) s (status, kind)`
      yield* sql`
        insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
        values (${project_id}::uuid, 0, 0, 0, 6000)`
      // Rows count as visible to all once their commit is on disk.
      yield* sql`checkpoint`.unprepared
      yield* sql`vacuum analyze task`.unprepared
      const reads = sql<{ scanned: number; fetched: number }>`
        select pg_stat_get_xact_tuples_returned('task'::regclass)::int as scanned,
               pg_stat_get_xact_tuples_fetched('task'::regclass)::int as fetched`
      const counted = yield* sql.withTransaction(
        Effect.gen(function* () {
          const counts = yield* TaskStore.make(sql).counts(project_id)
          return { counts, read: (yield* reads)[0]! }
        })
      )
      assert.deepStrictEqual(Option.getOrThrow(counted.counts), {
        open: 2000,
        in_progress: 1000,
        blocked: 2000,
        decisions: 1000,
        closed: 1000
      })
      assert.deepStrictEqual(counted.read, { scanned: 0, fetched: 0 })
    })
  )
})
