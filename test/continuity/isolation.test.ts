/** A credential reaches one project (spec 1.5, 5): what is another project's is answered like what does not exist. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { randomUUID } from "node:crypto"
import { SqlClient } from "effect/sql"
import { Agent } from "../support/McpAgent.ts"
import { Service } from "../support/Service.ts"

const uses: Record<string, (id: string, version: number) => { tool: string; given: Record<string, unknown> }> = {
  "reading an entry": (id) => ({ tool: "memory_get", given: { id } }),
  "superseding an entry": (id) => ({ tool: "memory_add", given: { kind: "note", body: "x", supersedes: id } }),
  "naming a task in an entry": (id) => ({ tool: "memory_add", given: { kind: "note", body: "x", task_id: id } }),
  "reading a task": (id) => ({ tool: "task_get", given: { id } }),
  "updating a task": (id, version) => ({
    tool: "task_update",
    given: {
      id,
      expected_version: version,
      title: "stolen",
      receipt: { session_ref: "s", worker: "w", outcome: "handoff", summary: "x" }
    }
  }),
  "depending on a task": (id) => ({ tool: "task_create", given: { title: "x", depends_on: [id] } }),
  "reading a document": (id) => ({ tool: "git_document_get", given: { document_id: id } })
}
const writing = new Set(["memory_add", "task_update", "task_create"])

layer(Service.layer)("isolation", (it) => {
  const rowsOf = (project_ids: ReadonlyArray<string>) =>
    SqlClient.SqlClient.use((sql) =>
      Effect.all(
        ["memory_entry", "memory_posting", "task", "task_dependency", "receipt", "idempotency_record"].map(
          (table) => sql`
            select to_jsonb(t) as row
              from ${sql.literal(table)} t
             where project_id = any (${project_ids}::uuid[])
             order by to_jsonb(t)::text`
        )
      )
    )

  it.effect(
    "whatever is done with ids of other projects is answered like random ids, and the others' rows do not change",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const agents = yield* Effect.replicateEffect(Agent.make(service), 3)
        const ids: Array<Array<string>> = []
        for (const agent of agents) {
          const entry = yield* agent.note("A secret of the project: ostrich")
          const task = yield* agent.task("A secret task")
          const closed = yield* agent.task("Another")
          yield* agent.update(closed, { status: "done" })
          ids.push([entry.id, task.id, closed.id])
        }
        const steps = fc.sample(
          fc.record({
            by: fc.integer({ min: 0, max: 2 }),
            of: fc.integer({ min: 1, max: 2 }),
            which: fc.integer({ min: 0, max: 2 }),
            version: fc.integer({ min: 1, max: 3 }),
            use: fc.constantFrom(...Object.keys(uses)),
            keyed: fc.boolean()
          }),
          60
        )
        for (const { by, keyed, of, use, version, which } of steps) {
          const agent = agents[by]!
          const others = agents.filter((other) => other !== agent).map(({ project_id }) => project_id)
          const before = yield* rowsOf(others)
          const perform = (id: string) => {
            const { given, tool } = uses[use]!(id, version)
            if (!writing.has(tool)) return agent.call(tool, given)
            return agent.write(tool, keyed ? { ...given, idempotency_key: "k" } : given)
          }
          const foreign = yield* perform(ids[(by + of) % 3]![which]!)
          const random = yield* perform(randomUUID())
          const malformed = yield* perform("no uuid")
          assert.isTrue(foreign.result.isError, use)
          assert.strictEqual(foreign.answer.text, random.answer.text, use)
          assert.strictEqual(malformed.answer.text, random.answer.text, use)
          assert.deepStrictEqual(yield* rowsOf(others), before, use)
        }
      }),
    60_000
  )

  it.effect("search, lists and snapshot show one project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const [mine, other] = [yield* Agent.make(service), yield* Agent.make(service)]
      yield* other.note("ostrich")
      yield* other.task("ostrich")
      for (const [tool, given] of [
        ["memory_search", { query: "ostrich" }],
        ["memory_search", {}],
        ["task_list", {}],
        ["continuity_context", {}]
      ] as const) {
        assert.notInclude((yield* mine.call(tool, given)).text, "ostrich")
      }
    })
  )

  it.effect("a cursor of another project shows nothing of it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const [mine, other] = [yield* Agent.make(service), yield* Agent.make(service)]
      yield* other.note("ostrich one")
      yield* other.note("ostrich two")
      const { next_cursor } = (yield* other.call("memory_search", { limit: 1 })).output
      assert.deepStrictEqual((yield* mine.call("memory_search", { limit: 1, cursor: next_cursor })).output.entries, [])
    })
  )
})
