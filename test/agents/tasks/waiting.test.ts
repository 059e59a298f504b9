/** Which tasks are ready is counted on the task, by every statement that writes (decisions.md, Tasks that wait). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Stream } from "effect"
import * as fc from "fast-check"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { mostWaiting } from "../../../src/agents/tasks/dependencies/Cycle.ts"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { miscounted } from "../../support/agents/Waiting.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { forAll, patience } from "../../support/run/Property.ts"
import { Service } from "../../support/service/Service.ts"

const agent = Effect.flatMap(Service, (service) => Agent.make(service))

const exported = Effect.fnUntraced(function* (project_id: string) {
  const { services } = yield* Service
  let file = ""
  const write = (text: string) => Effect.sync(() => void (file += text))
  yield* Context.get(services, Transfer).save(project_id, write)
  return file
})

const imported = Effect.fnUntraced(function* (file: string) {
  const { services } = yield* Service
  const { project_id } = yield* Context.get(services, Projects).create("Copy")
  yield* Context.get(services, Transfer).load(project_id, Stream.make(Buffer.from(file)))
  return project_id
})

/** `count` open tasks, written as the release before writes them. */
const tasksOf = Effect.fnUntraced(function* ({ project_id }: Agent, count: number) {
  const sql = yield* SqlClient.SqlClient
  const ids = Array.from({ length: count }, () => randomUUID()).toSorted()
  yield* sql`
    insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    select ${project_id}::uuid, id, 'T', '', 'open', 2, '{}', 1, 'x', now(), now()
      from unnest(${ids}::uuid[]) as t (id)`
  return ids
})

layer(Service.layer)("the number of unfinished dependencies", (it) => {
  const step = fc.record({
    kind: fc.constantFrom("create", "depend", "done", "open", "title"),
    task: fc.nat(7),
    others: fc.uniqueArray(fc.nat(7), { maxLength: 4 })
  })

  it.effect(
    "is right after any history of creating, closing, reopening and depending, and in a copy of the project",
    () =>
      forAll(
        fc.array(step, { minLength: 5, maxLength: 30 }),
        Effect.fnUntraced(function* (steps) {
          const a = yield* agent
          const tasks: Array<{ id: string; version: number }> = []
          for (const { kind, others, task } of steps) {
            const depends_on = others.flatMap((other) => tasks[other]?.id ?? [])
            if (kind === "create" || tasks[task] === undefined) tasks.push(yield* a.task("T", { depends_on }))
            else {
              const change = kind === "depend" ? { depends_on } : kind === "title" ? { title: "U" } : { status: kind }
              const { output } = yield* a.update(tasks[task], change)
              if (output !== undefined) tasks[task] = output.task
            }
            assert.deepStrictEqual(yield* miscounted, [])
          }
          const listed = yield* a.call("task_list", { ready: true, limit: 100 })
          for (const { id } of listed.output.tasks) {
            const { output } = yield* a.call("task_get", { id })
            assert.isTrue(output.dependencies.every(({ status }: { status: string }) => status === "done"))
          }
          yield* imported(yield* exported(a.project_id))
          assert.deepStrictEqual(yield* miscounted, [])
        })
      ),
    patience
  )

  it.effect("is kept when a replica of the release before writes, which does not know it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const [first, second, third] = yield* tasksOf(a, 3)
      const ready = Effect.map(a.call("task_list", { ready: true }), ({ output }) =>
        output.tasks.map(({ id }: { id: string }) => id)
      )
      yield* sql`
        insert into task_dependency (project_id, task_id, depends_on)
        values (${a.project_id}::uuid, ${second!}::uuid, ${first!}::uuid),
               (${a.project_id}::uuid, ${third!}::uuid, ${first!}::uuid),
               (${a.project_id}::uuid, ${third!}::uuid, ${second!}::uuid)`
      assert.deepStrictEqual(yield* ready, [first])
      yield* sql`update task set status = 'done', closed_at = now() where id = ${first!}::uuid`
      assert.deepStrictEqual(yield* ready, [second])
      yield* sql`delete from task_dependency where task_id = ${third!}::uuid and depends_on = ${second!}::uuid`
      assert.sameMembers(yield* ready, [second, third])
      yield* sql`update task set status = 'open', closed_at = null where id = ${first!}::uuid`
      assert.deepStrictEqual(yield* ready, [first])
      assert.deepStrictEqual(yield* miscounted, [])
    })
  )

  it.effect("is not exported, and a file cannot set it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.task("first")
      yield* a.task("second", { depends_on: [first.id] })
      const file = yield* exported(a.project_id)
      assert.notInclude(file, "waits_for")
      const refusal = yield* Effect.flip(imported(file.replace('"priority"', '"waits_for": 7, "priority"')))
      assert.include(refusal, { _tag: "import_invalid" })
    })
  )

  it.effect(
    "of at most 1,000 tasks changes when one is closed: a task that waits for it too is refused",
    () =>
      Effect.gen(function* () {
        const a = yield* agent
        const sql = yield* SqlClient.SqlClient
        const [root, ...waiting] = yield* tasksOf(a, 1 + mostWaiting)
        yield* sql`
        insert into task_dependency (project_id, task_id, depends_on)
        select ${a.project_id}::uuid, id, ${root!}::uuid from unnest(${waiting}::uuid[]) as t (id)`
        const other = yield* a.task("other")
        const created = yield* a.write("task_create", { title: "T", depends_on: [root] })
        const updated = yield* a.update(other, { depends_on: [root] })
        const many = yield* a.write("task_create_many", { tasks: [{ title: "T", depends_on: [root] }] })
        for (const { code, details } of [created, many, updated]) {
          assert.strictEqual(code, "task_graph_too_large")
          assert.deepStrictEqual(details, { field: "depends_on", crowded: [root], maximum: mostWaiting })
        }
        // Those that wait already may change what else they wait for.
        const kept = yield* a.update({ id: waiting[0]!, version: 1 }, { depends_on: [root, other.id] })
        assert.isDefined(kept.output, kept.text)
        const closed = yield* a.update({ id: root!, version: 1 }, { status: "done" })
        assert.isDefined(closed.output, closed.text)
        assert.deepStrictEqual(yield* miscounted, [])
      }),
    patience
  )
})

layer(Service.layer)("a large project", (it) => {
  /** Rows and index entries that a call reads, at an instance whose work PostgreSQL has counted. */
  const readBy = Effect.fnUntraced(function* (a: Agent, name: string, given: Readonly<Record<string, unknown>>) {
    const sql = yield* SqlClient.SqlClient
    const read = Effect.gen(function* () {
      // Sessions publish their counts when they are idle, at most once a second.
      yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 1_200)))
      yield* a.call("server_identity")
      yield* sql`select pg_stat_clear_snapshot()`
      const [row] = yield* sql<{ read: number }>`
        select (select sum(seq_tup_read) from pg_stat_user_tables
                 where relname in ('task', 'task_dependency', 'receipt'))::float8
               + (select sum(idx_tup_read) from pg_stat_user_indexes
                   where relname in ('task', 'task_dependency', 'receipt'))::float8 as read`
      return row!.read
    })
    const before = yield* read
    const { output, text } = yield* a.call(name, given)
    assert.isDefined(output, text)
    return { output, read: (yield* read) - before }
  })

  it.effect("is read by index: what is ready, what a session starts with, and how many receipts there are", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const ids = yield* tasksOf(a, 2_000)
      yield* sql`
        insert into task_dependency (project_id, task_id, depends_on)
        select ${a.project_id}::uuid, (${ids}::uuid[])[i], (${ids}::uuid[])[i - j]
          from generate_series(9, 2000) i, generate_series(1, 8) j`
      yield* sql`
        insert into receipt (project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls,
                             task_version_after, task_status_after, actor, created_at)
        select ${a.project_id}::uuid, gen_random_uuid(), ${ids[0]!}::uuid, 's' || n, 'w', 'progress', 's', '{}', '{}', 1,
               'open', 'x', now()
          from generate_series(1, 10000) n`
      yield* sql`
        insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks, receipts)
        values (${a.project_id}::uuid, 0, 0, 0, 2000, 10000)`
      yield* sql`vacuum analyze task, task_dependency, receipt`.unprepared
      const ready = yield* readBy(a, "task_list", { ready: true })
      assert.lengthOf(ready.output.tasks, 8)
      assert.isBelow(ready.read, 200)
      const context = yield* readBy(a, "continuity_context", {})
      assert.deepInclude(context.output.omitted, { tasks: 1_980, receipts: 9_990 })
      // The unfinished tasks are counted, in an index: at most 50,000.
      assert.isBelow(context.read, 2_000 + 200)
    })
  )
})
