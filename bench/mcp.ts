/**
 * The cost of tools/call, and how it grows with a project's memory. `--large` adds a project of 100,000 entries and takes
 * minutes.
 *
 *   - per tool, alternately: the service; an SDK v2 server whose tools do nothing; and the tool's SQL alone, run by
 *     node:http and `pg`. The aim applies to the service's CPU time without that SQL;
 *   - memory_add and memory_search with one client, compared with @modelcontextprotocol/server-memory of the same size;
 *   - memory_search in a project of 1000 entries in the database of the largest project, alternately with the same search
 *     in a separate database;
 *   - how many tokens the list of tools costs a model.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect, Option, Redacted } from "effect"
import { fork } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { Access } from "../src/signin/access/Access.ts"
import { Memory } from "../src/agents/memory/Memory.ts"
import { Tasks } from "../src/agents/tasks/Tasks.ts"
import { toolCost } from "../test/support/agents/ToolCost.ts"
import { end } from "../test/support/database/PostgresUser.ts"
import { agentWith } from "./support/agent.ts"
import { body, question } from "./support/corpus.ts"
import * as harness from "./support/harness.ts"
import { listening } from "./peers/peers.ts"
import { type Figure, figure, ratio, type Round, report } from "./support/report.ts"
import { serverMemory } from "./peers/server-memory.ts"
import type { Alone } from "./peers/sql-alone.ts"
import { running } from "./support/statements.ts"
import type { AgentLoad, tools } from "./support/load/tools.ts"

const sizes = harness.large ? [1000, 10_000, 100_000] : [1000, 10_000]
const seconds = Math.max(1, harness.seconds / 60)
type ToolName = keyof ReturnType<typeof tools>
const toolNames: ReadonlyArray<ToolName> = ["memory_get", "memory_search", "memory_add", "task_update"]

/** Runs `count` calls, enough to outweigh the slow first calls, or fewer if the machine is too busy. */
const load = (
  on: harness.Bench,
  target: harness.Target,
  agent: AgentLoad,
  operation: ToolName,
  connections: number,
  count: number
) => harness.measure(on, target, { operation, agent, connections, count, seconds: 10 * seconds, first: 0 })

/** The statements of one tool call, starting with the lookup of its credential. */
const recorded = Effect.fnUntraced(function* ({ context }: harness.Bench, { ids, token }: AgentLoad, name: ToolName) {
  const memory = Context.get(context, Memory)
  const tasks = Context.get(context, Tasks)
  const bearer = Option.some(Redacted.make(token))
  const actor = yield* Context.get(context, Access).authorize(bearer)
  const { answer: task } = yield* tasks.create(actor, { title: "A task" })
  const operations: Record<ToolName, Effect.Effect<unknown, unknown>> = {
    memory_get: memory.get(actor, ids[0]!),
    memory_search: memory.search(actor, { query: question(0) }),
    memory_add: memory.add(actor, { kind: "note", body: body(0) }),
    task_update: tasks.update(actor, { id: task.id, expected_version: 1, priority: 3 })
  }
  const authorizing = yield* running(Context.get(context, Access).authorize(bearer))
  const working = yield* running(operations[name])
  return {
    statements: [...authorizing.ran, ...working.ran],
    transaction: name === "task_update" ? authorizing.ran.length : undefined,
    fresh: working.ran
      .flatMap(([, values]) => values)
      .filter((value) => typeof value === "string")
      .filter((text) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text) && ![actor.project_id, ids[0], task.id].includes(text))
  }
})

const sqlAlone = Effect.fnUntraced(function* (
  { database }: harness.Bench,
  ran: Pick<Alone, "statements" | "transaction" | "fresh">
) {
  const port = yield* harness.freePort
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => fork(join(import.meta.dirname, "peers/sql-alone.ts"), { serialization: "advanced" })),
    (running) => end(running, "SIGTERM")
  )
  child.send({ database, port, poolSize: harness.poolSize, ...ran } satisfies Alone)
  yield* Effect.promise(() => once(child, "message"))
  return { url: `http://127.0.0.1:${port}`, pid: child.pid! }
})

const noopServer = Effect.gen(function* () {
  const port = yield* harness.freePort
  const child = yield* harness.started(["bench/peers/mcp-nothing.ts", String(port)])
  const url = `http://127.0.0.1:${port}`
  yield* listening(url)
  return { url, pid: child.pid! }
})

/** The rounds with the CPU time of the other rounds subtracted. */
const subtractCpu = (rounds: ReadonlyArray<Round>, others: ReadonlyArray<Round>): ReadonlyArray<Round> =>
  rounds.map((round, index) => ({ ...round, cpu_us: round.cpu_us! - others[index]!.cpu_us! }))

const costs = Effect.fnUntraced(function* (on: harness.Bench, agent: AgentLoad) {
  const noop = yield* noopServer
  const empty = yield* sqlAlone(on, { statements: [], transaction: undefined, fresh: [] })
  const sqlOnly = { memory_get: empty, memory_search: empty, memory_add: empty, task_update: empty }
  for (const name of toolNames) sqlOnly[name] = yield* sqlAlone(on, yield* recorded(on, agent, name))

  const run =
    (target: harness.Target, name: ToolName, count = 1500) =>
    () =>
      load(on, target, agent, name, harness.connections, count)
  // The peers ignore the tool's name. They all get memory_get calls, because task_update first creates a task, which only
  // the service can do.
  const runPeer = (target: harness.Target, count?: number) => run(target, "memory_get", count)
  yield* runPeer(noop, 5000)()
  for (const name of toolNames) yield* run(on, name, 2000)()
  for (const target of new Set([empty, ...Object.values(sqlOnly)])) yield* runPeer(target)()
  const rounds: Readonly<Record<string, ReadonlyArray<Round>>> = yield* harness.inTurns({
    ...Object.fromEntries(toolNames.map((name) => [name, run(on, name)])),
    ...Object.fromEntries(toolNames.map((name) => [`${name} SQL`, runPeer(sqlOnly[name])])),
    noop: runPeer(noop),
    empty: runPeer(empty)
  })
  return [
    figure("SDK v2, tools that do nothing", rounds["noop"]!),
    ...toolNames.flatMap((name) => {
      const sql = subtractCpu(rounds[`${name} SQL`]!, rounds["empty"]!)
      return [
        figure(name, rounds[name]!),
        figure(
          `${name}, SQL only`,
          sql.map(({ cpu_us }) => ({ cpu_us: cpu_us! }))
        ),
        figure(`${name} without its SQL, compared with SDK v2`, [], {
          ratio: ratio("CPU", subtractCpu(rounds[name]!, sql), rounds["noop"]!, { most: 1.7 })
        })
      ]
    })
  ]
})

const growth = Effect.fnUntraced(function* (on: harness.Bench, agent: AgentLoad) {
  const peer = yield* serverMemory(agent.entries, seconds)
  const add = yield* load(on, on, agent, "memory_add", 1, 300)
  const search = yield* load(on, on, agent, "memory_search", 1, 300)
  const entries = agent.entries.toLocaleString("en")
  // The aim, five times faster, applies at 100,000 entries only.
  const aim = agent.entries === 100_000 ? { most: 0.2 } : undefined
  const note = `aim: p50 under 10 ms: ${search.p50_ms < 10 ? "met" : "missed"}`
  return [
    figure(`memory_add at ${entries} entries, one client`, [add]),
    figure(`server-memory, create_entities at ${entries}`, [peer.add], { ratio: ratio("p50", [add], [peer.add], aim) }),
    figure(`memory_search at ${entries} entries, one client`, [search], { note }),
    figure(`server-memory, search_nodes at ${entries}`, [peer.search], {
      ratio: ratio("p50", [search], [peer.search], aim)
    })
  ]
})

const neighbour = Effect.fnUntraced(function* (
  beside: readonly [harness.Bench, AgentLoad],
  alone: readonly [harness.Bench, AgentLoad]
) {
  const search =
    ([on, agent]: typeof alone) =>
    () =>
      load(on, on, agent, "memory_search", 1, 300)
  const rounds = yield* harness.inTurns({ beside: search(beside), alone: search(alone) }, Infinity)
  const largest = sizes.at(-1)!.toLocaleString("en")
  return [
    figure(`memory_search in 1,000 entries, beside ${largest}`, rounds.beside),
    figure("the same in a separate database", rounds.alone, {
      ratio: ratio("p50", rounds.beside, rounds.alone, { most: 1.2 })
    })
  ]
})

/** Reported at the end, even if a later measurement fails. */
const figures: Array<Figure> = [
  figure("tool list", [], {
    note: `${toolCost.contributor} tokens, a reader's ${toolCost.reader}; aim: at most 4,000, and less than half`
  })
]

const main = Effect.gen(function* () {
  const on = yield* harness.start
  figures.push(...(yield* costs(on, yield* agentWith(on, 1000))))
  for (const size of sizes) figures.push(...(yield* growth(on, yield* agentWith(on, size))))
  const other = yield* harness.start
  figures.push(...(yield* neighbour([on, yield* agentWith(on, 1000)], [other, yield* agentWith(other, 1000)])))
}).pipe(Effect.ensuring(Effect.sync(() => report("mcp", figures))))

NodeRuntime.runMain(Effect.scoped(main))
