/** task_create_many, and the parent of a task (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { instance, Service } from "../../support/service/Service.ts"

layer(Service.layer)("task_create_many", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const create = (a: Agent, tasks: ReadonlyArray<object>, given: object = {}) =>
    a.write("task_create_many", { tasks, ...given })
  const counted = ({ project_id }: Agent) =>
    Effect.map(
      SqlClient.SqlClient.use(
        (sql) => sql<{ tasks: number; used: number; audited: number }>`
          select (select count(*)::int from task where project_id = ${project_id}::uuid) as tasks,
                 (select coalesce(sum(tasks), 0)::int from project_usage where project_id = ${project_id}::uuid) as used,
                 (select count(*)::int
                    from audit_event
                   where project_id = ${project_id}::uuid
                     and action = 'task.created') as audited`
      ),
      ([row]) => row!
    )

  it.effect("creates tasks that name each other by ref, in any order, and answers in the order of the request", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const before = yield* a.task("Before")
      const { output, text } = yield* create(a, [
        { title: "Roof", ref: "face", depends_on: ["walls", before.id], parent: "house" },
        { title: "Walls", ref: "walls", parent: "house" },
        { title: "House", ref: "house" },
        { title: "Party" }
      ])
      assert.isDefined(output, text)
      assert.isFalse(output.replayed)
      const [roof, walls, house, party] = output.tasks
      assert.deepStrictEqual(
        output.tasks.map(({ ref }: { ref?: string }) => ref),
        ["face", "walls", "house", undefined]
      )
      assert.deepInclude(party, { version: 1, status: "open", assignee: null })
      const read = Effect.fnUntraced(function* (id: string) {
        return (yield* a.call("task_get", { id })).output.task
      })
      assert.deepInclude(yield* read(roof.id), {
        title: "Roof",
        parent: house.id,
        depends_on: [before.id, walls.id].toSorted(),
        ready: false
      })
      assert.deepInclude(yield* read(house.id), { parent: null, ready: true })
      const parts = yield* a.call("task_list", { parent: house.id })
      assert.sameMembers(
        parts.output.tasks.map(({ id }: { id: string }) => id),
        [roof.id, walls.id]
      )
      assert.deepStrictEqual(yield* counted(a), { tasks: 5, used: 5, audited: 5 })
    })
  )

  it.effect("creates all or none, and names what is wrong", () =>
    Effect.gen(function* () {
      const [a, other] = [yield* agent, yield* agent]
      const foreign = yield* other.task("Foreign")
      const cases: ReadonlyArray<readonly [tasks: ReadonlyArray<object>, code: string, field: string | undefined]> = [
        [[{ title: "A" }, { title: "B", depends_on: [foreign.id] }], "task_not_found", "tasks.1.depends_on"],
        [[{ title: "A" }, { title: "B", parent: foreign.id }], "task_not_found", "tasks.1.parent"],
        [[{ title: "A" }, { title: "B", parent: "no-such-ref" }], "task_not_found", "tasks.1.parent"],
        [[{ title: "A" }, { title: "B", depends_on: ["0190a1b2"] }], "invalid_request", "tasks.1.depends_on.0"],
        [
          [
            { title: "A", ref: "x" },
            { title: "B", ref: "x" }
          ],
          "invalid_request",
          "tasks.1.ref"
        ],
        [
          [
            { title: "A", ref: "a", depends_on: ["b"] },
            { title: "B", ref: "b", parent: "a" }
          ],
          "task_dependency_cycle",
          undefined
        ],
        [[{ title: "A", ref: "a", parent: "a" }], "task_dependency_cycle", undefined],
        [[{ title: "A" }, { title: "" }], "invalid_request", "tasks.1.title"],
        [[], "invalid_request", "tasks"],
        [Array.from({ length: 51 }, () => ({ title: "A" })), "invalid_request", "tasks"]
      ]
      for (const [tasks, code, field] of cases) {
        const refused = yield* create(a, tasks)
        assert.strictEqual(refused.code, code, refused.text)
        assert.strictEqual(refused.details?.field, field, refused.text)
      }
      assert.deepStrictEqual(yield* counted(a), { tasks: 0, used: 0, audited: 0 })
      const { services } = yield* Service
      yield* Context.get(services, Limits).set(a.project_id, { tasks: 2 })
      const full = yield* create(a, [{ title: "A" }, { title: "B" }, { title: "C" }])
      assert.strictEqual(full.code, "limit_exceeded")
      assert.deepStrictEqual(yield* counted(a), { tasks: 0, used: 0, audited: 0 })
    })
  )

  it.effect("creates them once, however many callers at two instances send the same key", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const b = a.at(yield* instance())
      const tasks = [
        { title: "A", ref: "a" },
        { title: "B", depends_on: ["a"] }
      ]
      const calls = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, index) => index),
        (index) => create(index % 2 === 0 ? a : b, tasks, { idempotency_key: "k" }),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        calls.filter(({ output }) => output?.replayed === false),
        1
      )
      assert.lengthOf(new Set(calls.map(({ output, text }) => JSON.stringify(output?.tasks ?? text))), 1)
      assert.deepStrictEqual(yield* counted(a), { tasks: 2, used: 2, audited: 2 })
      const other = yield* create(a, [{ title: "A" }], { idempotency_key: "k" })
      assert.strictEqual(other.code, "idempotency_conflict")
    })
  )

  it.effect("a task may have a parent of its project only, and keeps it", () =>
    Effect.gen(function* () {
      const [a, other] = [yield* agent, yield* agent]
      const house = yield* a.task("House")
      const roof = yield* a.task("Roof", { parent: house.id })
      assert.strictEqual(roof.parent, house.id)
      const updated = yield* a.update(roof, { title: "Green roof" })
      assert.strictEqual(updated.output.task.parent, house.id)
      const foreign = yield* other.write("task_create", { title: "Roof", parent: house.id })
      assert.strictEqual(foreign.code, "task_not_found")
      assert.strictEqual(foreign.details.field, "parent")
      assert.strictEqual((yield* other.call("task_list", { parent: house.id })).code, "task_not_found")
      assert.deepStrictEqual((yield* a.call("task_list", { parent: roof.id })).output.tasks, [])
    })
  )
})
