/** Whoever writes tasks locks them before the project's usage (DependencyStore.ts), so that no two calls wait for each other. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { waitedForBy } from "../../support/database/Locks.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("a call that writes tasks", (it) => {
  /** Imports two tasks, of which the second waits for the first, or changes them. */
  const bring = Effect.fnUntraced(function* ({ project_id }: Agent, title: string) {
    const { services } = yield* Service
    const issues = [
      { id: "free", title },
      { id: "held", title, dependencies: [{ depends_on_id: "free", type: "blocks" }] }
    ]
    const file = { path: "issues.jsonl", bytes: Buffer.from(issues.map((issue) => JSON.stringify(issue)).join("\n")) }
    return yield* Context.get(services, Transfer).bring(
      project_id,
      { format: "beads", label: "notes", files: [file] },
      false
    )
  })

  const writes: Readonly<
    Record<string, (agent: Agent, free: string, held: string) => Effect.Effect<unknown, unknown, Service>>
  > = {
    "adds several": (agent, free, held) =>
      agent.write("task_create_many", { tasks: [free, held].map((id) => ({ title: "New", depends_on: [id] })) }),
    "closes one for which another waits": (agent, free) => agent.update({ id: free, version: 1 }, { status: "done" }),
    "imports changes of several": (agent) => bring(agent, "New")
  }

  for (const [what, write] of Object.entries(writes)) {
    it.effect(`and ${what} waits for a task without the project's usage`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const agent = yield* Effect.flatMap(Service, (service) => Agent.make(service))
        const { lines } = yield* bring(agent, "Old")
        const [free, held] = lines.map(({ id }) => id!)
        const inProject = sql`project_id = ${agent.project_id}::uuid`
        const writing = yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`select from task where ${inProject} and id = ${held!}::uuid for no key update`
            const writing = yield* Effect.forkChild(write(agent, free!, held!))
            yield* waitedForBy(1)
            const usage = yield* sql`select from project_usage where ${inProject} for update skip locked`
            assert.lengthOf(usage, 1)
            return writing
          })
        )
        yield* Fiber.join(writing)
      })
    )
  }
})
