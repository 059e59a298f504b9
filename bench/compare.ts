/**
 * `npm run bench -- NAME ... --compare BASE [--clients 16,64] [--seconds 60]`: judges a change. The service of this work
 * tree and that of another commit, each with a database of its own, run the same operations in turns of a second, until
 * the time is up. Prints the medians and, round by round, the ratio with its quartiles: above 1, this work tree has more.
 *
 * Both databases are seeded by this work tree, so their tables for seeds must be alike.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { agentWith } from "./support/agent.ts"
import { checkoutOf } from "./support/checkout.ts"
import { clientWithCodes } from "./support/client.ts"
import * as harness from "./support/harness.ts"
import type { Load, Start } from "./support/load/load.ts"
import type { Round } from "./support/report.ts"

/** What a load generator is given, and what each of its rounds needs. */
interface Plan {
  readonly load: Pick<Load, "operation"> & Partial<Load>
  readonly before?: Effect.Effect<Start, unknown>
}

const seconds = 1
const warmUps = 4

const bridges = (operation: "self" | "rotate" | "mixed") =>
  Effect.fnUntraced(function* ({ issue, project_id }: harness.Bench, clients: number) {
    return { load: { operation, project_id, first: yield* issue(clients * 4) } } satisfies Plan
  })

const tool = (operation: "memory_get" | "memory_search" | "memory_add" | "task_update") => (on: harness.Bench) =>
  Effect.map(agentWith(on, 1000), (agent): Plan => ({ load: { operation, agent } }))

const plans = {
  self: bridges("self"),
  rotate: bridges("rotate"),
  mixed: bridges("mixed"),
  enroll: Effect.fnUntraced(function* ({ issue, project_id }: harness.Bench) {
    const first = yield* issue(0)
    const count = seconds * 4000
    const before = Effect.as(issue(count), { codes: [] })
    return { load: { operation: "enroll", project_id, first, count }, before } satisfies Plan
  }),
  exchange: Effect.fnUntraced(function* (on: harness.Bench) {
    const { client_id, codes } = yield* clientWithCodes(on)
    const count = 1000
    const before = Effect.map(codes(count), (codes) => ({ codes }))
    return { load: { operation: "exchange", client_id, count, seconds: 60 }, before } satisfies Plan
  }),
  refresh: Effect.fnUntraced(function* (on: harness.Bench, clients: number) {
    const { client_id, codes } = yield* clientWithCodes(on)
    return { load: { operation: "refresh", client_id, codes: yield* codes(clients) } } satisfies Plan
  }),
  memory_get: tool("memory_get"),
  memory_search: tool("memory_search"),
  memory_add: tool("memory_add"),
  task_update: tool("task_update")
}
type Name = keyof typeof plans
const isName = (name: string): name is Name => Object.hasOwn(plans, name)

const numbers = {
  "operations a second": "per_second",
  "p50, ms": "p50_ms",
  "p99, ms": "p99_ms",
  "CPU of the service, µs": "cpu_us",
  "CPU of the database, µs": "database_cpu_us"
} as const satisfies Readonly<Record<string, keyof Round>>

const quantile = (values: ReadonlyArray<number>, q: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))]!

/** Runs both in turns until `until`, a time of `performance.now()`. */
const compare = Effect.fnUntraced(function* (
  contestants: ReadonlyArray<harness.Bench>,
  name: Name,
  clients: number,
  until: number
) {
  const runs = yield* Effect.forEach(contestants, (on) =>
    Effect.gen(function* () {
      const { before = Effect.succeed({ codes: [] }), load }: Plan = yield* plans[name](on, clients)
      const all = { first: 0, seconds, count: 1_000_000, connections: clients, ...load }
      const round = yield* harness.generator(on, on, all)
      return { next: Effect.flatMap(before, round), rounds: [] as Array<Required<Round>> }
    })
  )
  for (const { next } of runs) yield* Effect.replicateEffect(next, warmUps)
  for (const { sql } of contestants) yield* sql`analyze`
  // Each is first in every other round: what the first leaves behind disturbs the second.
  for (let turn = 0; turn === 0 || performance.now() < until; turn++) {
    for (const { next, rounds } of turn % 2 === 0 ? runs : runs.toReversed()) rounds.push(yield* next)
  }
  const [base, changed] = runs.map(({ rounds }) => rounds)
  const rows = Object.entries(numbers).map(([what, key]) => {
    const [before, after] = [base!, changed!].map((rounds) => rounds.map((round) => round[key]))
    const ratios = after!.map((value, round) => value / before![round]!)
    const digits = key.endsWith("_ms") ? 2 : 0
    const medians = [before!, after!].map((values) => quantile(values, 0.5).toFixed(digits))
    const [low, middle, high] = [0.25, 0.5, 0.75].map((q) => quantile(ratios, q).toFixed(2))
    return `| ${[what, ...medians, middle, `${low} to ${high}`].join(" | ")} |\n`
  })
  const title = `${name}, ${clients} ${clients === 1 ? "client" : "clients"}, ${base!.length} rounds`
  const head = `| ${title} | ${harness.compared.base} | this work tree | ratio | quartiles |\n|---|--:|--:|--:|---|\n`
  process.stdout.write(`\n${head}${rows.join("")}`)
}, Effect.scoped)

const main = Effect.gen(function* () {
  const { base, clients, names } = harness.compared
  const unknown = names.filter((name) => !isName(name))
  if (unknown.length > 0 || names.length === 0 || base === undefined) {
    process.stderr.write(`Name one or more of: ${Object.keys(plans).join(", ")}.\n`)
    process.exitCode = 64
    return
  }
  const contestants = [yield* harness.startWith({}, yield* checkoutOf(base)), yield* harness.start]
  const measurements = names.filter(isName).flatMap((name) => clients.map((count) => [name, count] as const))
  const startedAt = performance.now()
  const share = (harness.seconds * 1000 - startedAt) / measurements.length
  for (const [index, [name, count]] of measurements.entries()) {
    yield* compare(contestants, name, count, startedAt + share * (index + 1))
  }
})

NodeRuntime.runMain(Effect.scoped(main))
