/** A backup lacks the postings of the search; a restored database gets them from its entries. */
import { assert, layer } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { sweeps } from "../../../src/agents/memory/Sweeps.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { sweepFailures } from "../../../src/platform/metrics/Metrics.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { temporaryFolder } from "../../support/database/PostgresUser.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { recording } from "../../support/run/Lines.ts"
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

/** So many projects, in the order in which they have their turns. */
const makeProjects = (count: number) =>
  Effect.gen(function* () {
    const agents = yield* Effect.replicateEffect(Agent.make(yield* Service), count)
    return agents.map(({ project_id }) => project_id).toSorted()
  })

/** Adds entries that have no postings, as a restore does. */
const restore = Effect.fnUntraced(function* (project_id: string, entries: number, body: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
    select ${project_id}::uuid, gen_random_uuid(), 'note', 'T', ${body}, '{}', 'x', 'contributor', now()
      from generate_series(1, ${entries})`
  yield* sql`insert into memory_reindex (project_id, due_at) values (${project_id}::uuid, '-infinity')`
})

/** How many entries of each project are indexed. */
const indexedOf = (projects: ReadonlyArray<string>) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ entries: number }>`
        select count(distinct m.entry_id)::int as entries
          from unnest(${projects}::uuid[]) p (project_id)
          left join memory_posting m using (project_id)
         group by p.project_id
         order by p.project_id`,
      (rows) => rows.map(({ entries }) => entries)
    )
  )

/** Lets the sweep read so many entries. */
const reading = (limit: number, now = new Date()) =>
  SqlClient.SqlClient.use((sql) => Effect.forEach(sweeps, ({ run }) => run(sql, now, limit)))

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
      const projects = yield* makeProjects(2)
      yield* restore(projects[0]!, 250, "Moved")
      yield* restore(projects[1]!, 1, "Moved")
      yield* reading(101)
      assert.deepStrictEqual(yield* indexedOf(projects), [100, 1])
      yield* reading(1000)
      assert.deepStrictEqual(yield* indexedOf(projects), [250, 1])
    })
  )

  it.effect("is made of 32 KiB of a project's texts at once, and of the text that goes beyond", () =>
    Effect.gen(function* () {
      const projects = yield* makeProjects(2)
      yield* restore(projects[0]!, 5, "Moved ".repeat(2048))
      yield* restore(projects[1]!, 1, "Moved")
      yield* reading(4)
      assert.deepStrictEqual(yield* indexedOf(projects), [3, 1])
      yield* reading(1000)
      assert.deepStrictEqual(yield* indexedOf(projects), [5, 1])
    })
  )

  it.effect("of a project that fails is tried again ten minutes later, and the projects behind it do not wait", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const projects = yield* makeProjects(3)
      const failing = projects[1]!
      for (const project_id of projects) yield* restore(project_id, 1, "Moved")
      // No more bytes can be added to these.
      yield* sql`
        insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
        values (${failing}::uuid, 0, ${2n ** 63n - 1n}, 0, 0)`
      const failures = Effect.map(
        Metric.value(sweepFailures("index memory")),
        (state) => (state as Metric.CounterState<number>).count
      )
      const before = yield* failures
      const now = new Date()
      const { lines, record } = recording()
      yield* record(reading(1000, now))
      assert.deepStrictEqual(yield* indexedOf(projects), [1, 0, 1])
      assert.strictEqual((yield* failures) - before, 1)
      assert.lengthOf(
        lines.filter((line) => line.includes("A project could not be indexed") && line.includes(failing)),
        1
      )

      yield* sql`update project_usage set index_bytes = 0 where project_id = ${failing}::uuid`
      yield* reading(1000, new Date(now.getTime() + 599_999))
      assert.deepStrictEqual(yield* indexedOf(projects), [1, 0, 1])
      yield* reading(1000, new Date(now.getTime() + 600_000))
      assert.deepStrictEqual(yield* indexedOf(projects), [1, 1, 1])
    })
  )
})
