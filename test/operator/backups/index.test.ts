/** A backup lacks the postings of the search; a restored database gets them from its entries. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { sweeps } from "../../../src/agents/memory/Sweeps.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { temporaryFolder } from "../../support/database/PostgresUser.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { Service } from "../../support/service/Service.ts"
import { admin, result } from "../../support/service/ServiceAdmin.ts"

const index = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return {
    postings: yield* sql`select * from memory_posting order by project_id, lexeme, entry_id`,
    usage: yield* sql<{ usage: { index_bytes: number } }>`select to_jsonb(u) as usage from project_usage u`,
    due: yield* sql`select project_id from memory_reindex`
  }
})

const sweeping = Effect.suspend(() => {
  const now = Effect.succeed(new Date())
  const clock = DatabaseClock.of({ now, nowIfKnown: Effect.asSome(now), offset: Effect.succeed(0) })
  return Effect.provideService(sweepOnce(sweeps), DatabaseClock, clock)
})

layer(Service.layer, { timeout: 120_000 })("the index of the search", (it) => {
  it.effect("is in no backup, and is the same again once the sweep has read what was restored", () =>
    Effect.gen(function* () {
      const agent = yield* Agent.make(yield* Service)
      yield* agent.note("Moved to the harbour on 2026-05-08, see 9f3c2ab.")
      yield* agent.note("The invoices go out on Mondays.")
      const { id } = yield* agent.note("Nobody needs this.")
      yield* agent.write("memory_archive", { id })
      // Where an earlier restore had come to.
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into memory_reindex (project_id, after, due_at)
        values (${agent.project_id}::uuid, ${id}::uuid, 'infinity')`

      const file = join(yield* temporaryFolder, "backup")
      result(yield* admin("backup-database", "--out", file, "--json"))
      assert.notInclude(readFileSync(file, "utf8"), "memory_posting")
      const before = yield* index
      assert.isNotEmpty(before.postings)

      const restored = Effect.gen(function* () {
        result(yield* admin("restore-database", "--in", file, "--without-erasures", "--json"))
        const empty = yield* index
        assert.deepStrictEqual([empty.postings, empty.due], [[], [{ project_id: agent.project_id }]])
        assert.strictEqual(empty.usage[0]?.usage.index_bytes, 0)
        yield* sweeping
        return yield* index
      })
      const after = yield* Effect.provide(restored, TestDatabase.emptySql, { local: true })
      assert.deepStrictEqual(after, { ...before, due: [] })
    })
  )

  it.effect("is made of one project beside the other, however many entries the first one has", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const projects = [yield* Agent.make(on), yield* Agent.make(on)].map(({ project_id }) => project_id).toSorted()
      const sql = yield* SqlClient.SqlClient
      for (const [project_id, entries] of [[projects[0], 250] as const, [projects[1], 1] as const]) {
        yield* sql`
          insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
          select ${project_id}::uuid, gen_random_uuid(), 'note', 'T', 'Moved', '{}', 'x', 'contributor', now()
            from generate_series(1, ${entries})`
        yield* sql`insert into memory_reindex (project_id, due_at) values (${project_id}::uuid, '-infinity')`
      }
      const indexed = sql`
        select count(distinct entry_id)::int as entries
          from memory_posting
         where project_id = any (${projects}::uuid[])
         group by project_id
         order by project_id`
      const sweep = (limit: number) => Effect.forEach(sweeps, ({ run }) => run(sql, new Date(), limit))
      yield* sweep(101)
      assert.deepStrictEqual(yield* indexed, [{ entries: 100 }, { entries: 1 }])
      yield* sweep(1000)
      assert.deepStrictEqual(yield* indexed, [{ entries: 250 }, { entries: 1 }])
    })
  )
})
