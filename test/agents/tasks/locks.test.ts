/**
 * Whoever writes to a project locks its graph of tasks, then tasks, then its usage, then the count of its entries
 * (DependencyStore.ts), so that no two calls wait for each other.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { Format } from "../../../src/agents/transfer/sources/formats.ts"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { waitedForBy } from "../../support/database/Locks.ts"
import { Service } from "../../support/service/Service.ts"

const transfer = Effect.map(Service, ({ services }) => Context.get(services, Transfer))

const bring = Effect.fnUntraced(function* ({ project_id }: Agent, format: Format, path: string, text: string) {
  const source = { format, label: "notes", files: [{ path, bytes: Buffer.from(text) }] }
  return yield* (yield* transfer).bring(project_id, source, false)
})

/** Imports tasks, or changes them; each waits for the one before. */
const bringTasks = (agent: Agent, title: string, ...ids: ReadonlyArray<string>) => {
  const issues = ids.map((id, index) => ({
    id,
    title,
    dependencies: ids.slice(0, index).map((before) => ({ depends_on_id: before, type: "blocks" }))
  }))
  return bring(agent, "beads", "issues.jsonl", issues.map((issue) => JSON.stringify(issue)).join("\n"))
}

/** Imports into one project what another one has. */
const copy = Effect.fnUntraced(function* (from: Agent, to: Agent) {
  const { load, save } = yield* transfer
  let file = ""
  yield* save(from.project_id, (text) => Effect.sync(() => void (file += text)))
  return yield* load(to.project_id, Stream.make(Buffer.from(file)))
})

const newAgent = Effect.flatMap(Service, (service) => Agent.make(service))

layer(Service.layer)("a call that writes tasks", (it) => {
  const writes: Readonly<
    Record<string, (agent: Agent, free: string, held: string) => Effect.Effect<unknown, unknown, Service>>
  > = {
    "adds several": (agent, free, held) =>
      agent.write("task_create_many", { tasks: [free, held].map((id) => ({ title: "New", depends_on: [id] })) }),
    "closes one for which another waits": (agent, free) => agent.update({ id: free, version: 1 }, { status: "done" }),
    "imports changes of several": (agent) => bringTasks(agent, "New", "free", "held")
  }

  for (const [what, write] of Object.entries(writes)) {
    it.effect(`and ${what} waits for a task without the project's usage`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const agent = yield* newAgent
        const { lines } = yield* bringTasks(agent, "Old", "free", "held")
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

layer(Service.layer)("an import", (it) => {
  /** Prepares an import into the agent's project, which the effect that it returns then carries out. */
  type Preparing = (agent: Agent) => Effect.Effect<Effect.Effect<unknown, unknown, Service>, unknown, Service>

  const adding: Readonly<Record<string, Preparing>> = {
    "of a file": (agent) =>
      Effect.gen(function* () {
        const elsewhere = yield* newAgent
        const { id } = yield* elsewhere.task("Before")
        yield* copy(elsewhere, agent)
        yield* elsewhere.task("After", { depends_on: [id] })
        return copy(elsewhere, agent)
      }),
    "of issues": (agent) =>
      Effect.as(bringTasks(agent, "Issue", "before"), bringTasks(agent, "Issue", "before", "after"))
  }
  for (const [what, prepare] of Object.entries(adding)) {
    it.effect(`${what} waits for the project's graph without the task that a new one waits for`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const agent = yield* newAgent
        const add = yield* prepare(agent)
        const importing = yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`
              select pg_advisory_xact_lock(
                       hashtextextended('task dependencies of ' || ${agent.project_id}::text, 0))`
            const importing = yield* Effect.forkChild(add)
            yield* waitedForBy(1)
            const tasks = yield* sql`
              select from task where project_id = ${agent.project_id}::uuid for no key update skip locked`
            assert.lengthOf(tasks, 1)
            return importing
          })
        )
        yield* Fiber.join(importing)
      })
    )
  }

  const noting: Readonly<Record<string, Preparing>> = {
    "of a file": (agent) =>
      Effect.gen(function* () {
        const elsewhere = yield* newAgent
        yield* elsewhere.note("Elsewhere")
        return copy(elsewhere, agent)
      }),
    "of Markdown": (agent) => Effect.succeed(bring(agent, "markdown", "note.md", "A note\n"))
  }
  for (const [what, prepare] of Object.entries(noting)) {
    it.effect(`${what} waits for the project's usage without the count of its entries`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const agent = yield* newAgent
        yield* agent.note("Here")
        const add = yield* prepare(agent)
        const inProject = sql`project_id = ${agent.project_id}::uuid`
        // Every part of the count has a row, whatever the id of the new entry.
        yield* sql`
          insert into memory_count (project_id, part, active)
          select ${agent.project_id}::uuid, part, 0
            from generate_series(0, 15) part
              on conflict do nothing`
        const importing = yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`select from project_usage where ${inProject} for update`
            const importing = yield* Effect.forkChild(add)
            yield* waitedForBy(1)
            const counts = yield* sql`select from memory_count where ${inProject} for update skip locked`
            assert.lengthOf(counts, 16)
            return importing
          })
        )
        yield* Fiber.join(importing)
        const counted = yield* sql`select sum(active)::int as active from memory_count where ${inProject}`
        assert.deepStrictEqual(counted, [{ active: 2 }])
      })
    )
  }
})
