/** Many agents over two replicas: every claim has one winner, and no update is half written (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { answer, ask, person } from "../../support/agents/Answers.ts"
import { Agent, issueToken } from "../../support/agents/McpAgent.ts"
import { miscounted } from "../../support/agents/Waiting.ts"
import { race, rounds } from "../../support/attacks/Race.ts"
import type { Answer } from "../../support/network/Http.ts"
import { patience } from "../../support/run/Property.ts"
import { replicas } from "../../support/service/Replicas.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("racing agents", (it) => {
  const team = (size: number) =>
    Effect.gen(function* () {
      const { a: service, b: replica } = yield* replicas()
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
    "16 agents race for 20 tasks: each is claimed exactly once",
    () =>
      Effect.gen(function* () {
        const { agents, first } = yield* team(16)
        const tasks = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => `task ${index}`),
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
        assert.lengthOf(claimed, 20)
        assert.strictEqual(new Set(claimed).size, 20)
        const versions = yield* SqlClient.SqlClient.use(
          (sql) => sql<{ version: number }>`
          select distinct version from task where project_id = ${first.project_id}::uuid`
        )
        assert.deepStrictEqual(versions, [{ version: 2 }])
      }),
    120_000
  )

  it.effect("50 answers at once over two replicas: one decides, and 49 are told so", () =>
    Effect.gen(function* () {
      const { a: service, b: replica } = yield* replicas()
      const first = yield* Agent.make(service)
      const round = Effect.gen(function* () {
        const task = yield* ask(first)
        const answers = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, index) => index),
          (index) =>
            Effect.result(
              answer(
                index % 2 === 0 ? service : replica,
                person(first.project_id),
                task,
                `Answer ${index}`,
                `${task.id} ${index}`
              )
            ),
          { concurrency: "unbounded" }
        )
        const won = answers.filter(Result.isSuccess)
        assert.lengthOf(won, 1)
        for (const lost of answers.filter(Result.isFailure)) assert.strictEqual(lost.failure._tag, "stale_version")
        const { output } = yield* first.call("task_get", { id: task.id })
        assert.strictEqual(output.task.answer.entry_id, won[0]!.success.answer.entry_id)
        const decided = yield* SqlClient.SqlClient.use(
          (sql) => sql<{ id: string }>`select id from memory_entry where task_id = ${task.id}::uuid`
        )
        assert.deepStrictEqual(decided, [{ id: output.task.answer.entry_id }])
      })
      yield* race(round, Effect.void)
    })
  )

  it.effect("50 agents claim one task, and claim it again: one gets it, the others are told who", () =>
    Effect.gen(function* () {
      const { agents, first } = yield* team(50)
      const task = yield* first.task("wanted")
      const claimed = (given: Readonly<Record<string, unknown>>) =>
        Effect.forEach(agents, (agent) => agent.write("task_claim", { id: task.id, ...given }), {
          concurrency: "unbounded"
        })
      for (const given of [{ expected_version: 1 }, { expected_version: 2 }]) {
        const claims = yield* claimed(given)
        const { output } = yield* first.call("task_get", { id: task.id })
        assert.strictEqual(output.task.version, 2)
        const refused = claims.filter(({ code }) => code !== undefined)
        assert.lengthOf(refused, 49)
        for (const { code, details, text } of refused)
          assert.deepStrictEqual([code, details?.assignee], ["task_claimed", output.task.assignee], text)
      }
    })
  )

  it.effect("one session that reports twice at the same time leaves one receipt", () =>
    Effect.gen(function* () {
      const { agents, first } = yield* team(8)
      for (let round = 0; round < rounds; round += 1) {
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

  it.effect("parallel retries of one update with one key over two replicas: one change, one answer", () =>
    Effect.gen(function* () {
      const { agents, first } = yield* team(8)
      for (let round = 0; round < rounds; round += 1) {
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

  it.effect(
    "50 callers that close, reopen, create and depend at once leave every count right, without a deadlock",
    () =>
      Effect.gen(function* () {
        const on = yield* replicas()
        const first = yield* Agent.make(on.a)
        yield* Context.get(on.a.services, Limits).set(first.project_id, { concurrent_calls: 50 })
        const replica = first.at(on.b)
        const changes = (ids: ReadonlyArray<string>, caller: number) => [
          { status: "done" },
          { status: "open" },
          { depends_on: ids.slice(0, caller % 8) },
          { depends_on: ids.slice(caller % 6, (caller % 6) + 3) },
          { title: `caller ${caller}` }
        ]
        const round = Effect.gen(function* () {
          const tasks = yield* Effect.forEach(Array.from({ length: 8 }), (_, index) => first.task(`task ${index}`))
          const ids = tasks.map(({ id }) => id as string)
          const caller = Effect.fnUntraced(function* (caller: number) {
            const agent = caller % 2 === 0 ? first : replica
            const answers: Array<Answer> = []
            for (let turn = 0; turn < 2; turn += 1) {
              const pick = caller * 7 + turn * 3
              const { output } = yield* agent.call("task_get", { id: ids[pick % 8]! })
              const change = changes(ids, caller + turn)[pick % 5]!
              answers.push((yield* agent.update(output.task, change)).answer)
              const depends_on = ids.slice(pick % 5, (pick % 5) + 3)
              answers.push((yield* agent.write("task_create", { title: "waits", depends_on })).answer)
            }
            for (const { text } of answers) assert.notInclude(text, "bridge_persistence_error")
            for (const { text } of answers) assert.notInclude(text, "internal_error")
          })
          yield* Effect.forEach(
            Array.from({ length: 50 }, (_, index) => index),
            caller,
            { concurrency: "unbounded" }
          )
        })
        yield* race(
          round,
          Effect.map(miscounted, (wrong) => assert.deepStrictEqual(wrong, []))
        )
      }),
    patience
  )
})
