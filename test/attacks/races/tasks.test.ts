/** Many agents over two instances: every claim has one winner, and no update is half written (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Agent, issueToken } from "../../support/agents/McpAgent.ts"
import { instance, Service } from "../../support/service/Service.ts"

layer(Service.layer)("racing agents", (it) => {
  const team = (size: number) =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const first = yield* Agent.make(service)
      const agents = yield* Effect.forEach(Array.from({ length: size }), (_, index) =>
        Effect.map(
          issueToken(service, first.project_id),
          (token) => new Agent({ ...first, token, url: index % 2 === 0 ? service.url : replica.url })
        )
      )
      return { first, agents }
    })

  it.effect(
    "16 agents race for 200 tasks: each is claimed exactly once",
    () =>
      Effect.gen(function* () {
        const { agents, first } = yield* team(16)
        const tasks = yield* Effect.forEach(
          Array.from({ length: 200 }, (_, index) => `task ${index}`),
          (title) => first.task(title),
          { concurrency: 8 }
        )
        const won = yield* Effect.forEach(
          agents,
          (agent, worker) =>
            Effect.forEach(
              tasks.toSorted(() => (worker % 2 === 0 ? 1 : -1)),
              (task) =>
                Effect.map(
                  agent.update(task, { status: "in_progress", assignee: `worker ${worker}` }),
                  ({ code, output }) => {
                    assert.isTrue(output !== undefined || code === "stale_version", code)
                    return output === undefined ? undefined : (task.id as string)
                  }
                )
            ),
          { concurrency: "unbounded" }
        )
        const claimed = won.flat().filter((id) => id !== undefined)
        assert.lengthOf(claimed, 200)
        assert.strictEqual(new Set(claimed).size, 200)
        const versions = yield* SqlClient.SqlClient.use(
          (sql) => sql<{ version: number }>`
          select distinct version from task where project_id = ${first.project_id}::uuid`
        )
        assert.deepStrictEqual(versions, [{ version: 2 }])
      }),
    120_000
  )

  it.effect("one session that reports twice at the same time leaves one receipt", () =>
    Effect.gen(function* () {
      const { agents, first } = yield* team(8)
      for (let round = 0; round < 20; round += 1) {
        const task = yield* first.task(`task ${round}`)
        const receipt = { session_ref: "s", worker: "w", outcome: "completed", summary: "done" }
        const answers = yield* Effect.forEach(agents, (agent) => agent.update(task, { status: "done", receipt }), {
          concurrency: "unbounded"
        })
        assert.strictEqual(answers.filter(({ output }) => output !== undefined).length, 1)
        const { output } = yield* first.call("task_get", { id: task.id })
        assert.lengthOf(output.receipts, 1)
        assert.strictEqual(output.task.version, 2)
      }
    })
  )

  it.effect("parallel retries of one update with one key over two instances: one change, one answer", () =>
    Effect.gen(function* () {
      const { agents, first } = yield* team(8)
      for (let round = 0; round < 20; round += 1) {
        const task = yield* first.task(`task ${round}`)
        const answers = yield* Effect.forEach(
          agents,
          (agent) => agent.update(task, { status: "in_progress", idempotency_key: `k${round}` }),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(answers.filter(({ output }) => output?.replayed === false).length, 1)
        assert.strictEqual(new Set(answers.map(({ output }) => JSON.stringify(output.task))).size, 1)
      }
    })
  )
})
