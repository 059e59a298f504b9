/**
 * Estimates how many replicas a load needs: a queueing simulation with the CPU times of docs/benchmarks.md.
 *
 *     node bench/scaling/capacity.ts --bridges 10000,100000 --replicas 1,2,4 --cores 4
 *
 * 1. Requests arrive at random (Poisson) and go to the replicas round-robin. A replica is one thread: it serves one at a
 *    time.
 * 2. PostgreSQL serves them next. Its cores are shared by all replicas; each core serves one request at a time.
 * 3. Service times are exponential around the measured mean. They are CPU time only: disk latency of commits and the
 *    network come on top.
 * The same seed gives the same table.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"

/** CPU microseconds per request. */
export interface Cost {
  readonly replica: number
  readonly database: number
}

export interface Kind extends Cost {
  readonly name: string
  readonly per_second: number
}

export interface Deployment {
  readonly replicas: number
  /** Cores of PostgreSQL's machine. */
  readonly cores: number
}

export interface Outcome {
  /** Utilization from 0. Above 1 the queue grows without bound. */
  readonly replica_busy: number
  readonly database_busy: number
  readonly p50_ms: number
  readonly p99_ms: number
}

/** Pseudorandom numbers from 0 to 1 (mulberry32). */
const random = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)

export const simulate = (
  kinds: ReadonlyArray<Kind>,
  { cores, replicas }: Deployment,
  { requests = 100_000, seed = 1 } = {}
): Outcome => {
  const draw = random(seed)
  const exponential = (mean: number) => -Math.log(1 - draw()) * mean
  const rate = sum(kinds.map(({ per_second }) => per_second))
  const pickKind = () => {
    let remaining = draw() * rate
    return kinds.find(({ per_second }) => (remaining -= per_second) < 0) ?? kinds.at(-1)!
  }

  const replicaFreeAt = new Float64Array(replicas)
  let now = 0
  const processed = Array.from({ length: requests }, (_, n) => {
    now += exponential(1e6 / rate)
    const { database, replica } = pickKind()
    const index = n % replicas
    replicaFreeAt[index] = Math.max(now, replicaFreeAt[index]!) + exponential(replica)
    return { arrivedAt: now, queriedAt: replicaFreeAt[index]!, database }
  })

  const coreFreeAt = new Float64Array(cores)
  const latencies = processed
    .toSorted((left, right) => left.queriedAt - right.queriedAt)
    .map(({ arrivedAt, database, queriedAt }) => {
      const core = coreFreeAt.indexOf(Math.min(...coreFreeAt))
      coreFreeAt[core] = Math.max(queriedAt, coreFreeAt[core]!) + exponential(database)
      return (coreFreeAt[core]! - arrivedAt) / 1000
    })
    .toSorted((left, right) => left - right)

  const utilization = (of: keyof Cost, servers: number) =>
    sum(kinds.map((kind) => kind.per_second * kind[of])) / 1e6 / servers
  return {
    replica_busy: utilization("replica", replicas),
    database_busy: utilization("database", cores),
    p50_ms: latencies[requests >> 1]!,
    p99_ms: latencies[Math.floor(requests * 0.99)]!
  }
}

/** The cost in the row of that name in docs/benchmarks.md; without such a row, the assumed cost. */
export const costOf = (page: string, row: string, assumed: Cost): Cost => {
  const cells = page.split("\n").find((line) => line.startsWith(`| ${row} |`))
  const [, , , , replica, database] = cells?.split("|").slice(1) ?? []
  return cells === undefined ? assumed : { replica: Number(replica), database: Number(database) }
}

/** The requests per second of this many Bridges and their agents. `interval`: seconds between two requests of a Bridge. */
export const loadOf = (
  page: string,
  bridges: number,
  interval: { readonly lookup: number; readonly rotation: number; readonly tool: number }
): ReadonlyArray<Kind> => [
  {
    name: "lookup",
    per_second: bridges / interval.lookup,
    ...costOf(page, "tokens/self", { replica: 160, database: 50 })
  },
  {
    name: "rotation",
    per_second: bridges / interval.rotation,
    ...costOf(page, "rotation, prepare and confirm", { replica: 750, database: 950 })
  },
  {
    name: "tool call",
    per_second: bridges / interval.tool,
    ...costOf(page, "memory_search", { replica: 900, database: 2000 })
  }
]

const table = () => {
  const { values } = parseArgs({
    options: {
      bridges: { type: "string", default: "10000,100000,300000" },
      replicas: { type: "string", default: "1,2,4,8" },
      cores: { type: "string", default: "4" },
      // Seconds between two such requests of one Bridge.
      lookup: { type: "string", default: "60" },
      rotation: { type: "string", default: String(0.7 * 86_400) },
      tool: { type: "string", default: "300" },
      seed: { type: "string", default: "1" }
    }
  })
  const list = (text: string) => text.split(",").map(Number)
  const page = readFileSync(join(import.meta.dirname, "../../docs/benchmarks.md"), "utf8")
  const interval = { lookup: Number(values.lookup), rotation: Number(values.rotation), tool: Number(values.tool) }
  const cores = Number(values.cores)
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`
  const costs = loadOf(page, 1, interval).map((kind) => `| ${kind.name} | ${kind.replica} | ${kind.database} |`)
  const rows = list(values.bridges).flatMap((bridges) => {
    const load = loadOf(page, bridges, interval)
    const rate = sum(load.map(({ per_second }) => per_second)).toFixed(0)
    return list(values.replicas).map((replicas) => {
      const outcome = simulate(load, { replicas, cores }, { seed: Number(values.seed) })
      const keepsUp = Math.max(outcome.replica_busy, outcome.database_busy) < 1
      const times = keepsUp ? [outcome.p50_ms.toFixed(1), outcome.p99_ms.toFixed(1)] : ["", "overloaded"]
      const cells = [bridges, rate, replicas, percent(outcome.replica_busy), percent(outcome.database_busy), ...times]
      return `| ${cells.join(" | ")} |`
    })
  })
  return [
    "| request | µs of a replica | µs of PostgreSQL |",
    "|---|--:|--:|",
    ...costs,
    "",
    `| Bridges | requests a second | replicas | a replica is busy | PostgreSQL's ${cores} cores are busy | p50 ms | p99 ms |`,
    "|--:|--:|--:|--:|--:|--:|--:|",
    ...rows
  ]
}

if (import.meta.main) process.stdout.write(`${table().join("\n")}\n`)
