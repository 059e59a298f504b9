/**
 * Estimates how many replicas a load needs: a queue simulation with the CPU times of docs/benchmarks.md.
 *
 *     node bench/capacity.ts --bridges 10000,100000 --replicas 1,2,4 --cores 4
 *
 * 1. Requests arrive at random (Poisson) and go to the replicas in turn. A replica processes one at a time, on one thread.
 * 2. Each request then goes to PostgreSQL, whose cores all replicas share. A core processes one request at a time.
 * 3. The times are exponential around the measured means. They are CPU time only: commits to disk and the network come
 *    on top.
 * The same seed gives the same table.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"

/** Microseconds of CPU time per request. */
export interface Cost {
  readonly replica: number
  readonly database: number
}

export interface Kind extends Cost {
  readonly name: string
  readonly per_second: number
}

export interface Place {
  readonly replicas: number
  /** Cores of PostgreSQL. */
  readonly cores: number
}

export interface Outcome {
  /** Utilisation, from 0. Above 1 the queue grows without bound. */
  readonly replica_busy: number
  readonly database_busy: number
  readonly p50_ms: number
  readonly p99_ms: number
}

/** A generator of pseudo-random numbers from 0 to 1 (mulberry32). */
const random = (seed: number) => {
  let drawn = seed >>> 0
  return () => {
    drawn = (drawn + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(drawn ^ (drawn >>> 15), 1 | drawn)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)

export const simulate = (
  kinds: ReadonlyArray<Kind>,
  { cores, replicas }: Place,
  { requests = 100_000, seed = 1 } = {}
): Outcome => {
  const draw = random(seed)
  const around = (mean: number) => -Math.log(1 - draw()) * mean
  const rate = sum(kinds.map(({ per_second }) => per_second))
  const kind = () => {
    let left = draw() * rate
    return kinds.find(({ per_second }) => (left -= per_second) < 0) ?? kinds.at(-1)!
  }

  const replicaFree = new Float64Array(replicas)
  let now = 0
  const passed = Array.from({ length: requests }, (_, turn) => {
    now += around(1e6 / rate)
    const { database, replica } = kind()
    const at = turn % replicas
    replicaFree[at] = Math.max(now, replicaFree[at]!) + around(replica)
    return { arrived: now, asked: replicaFree[at]!, database }
  })

  const coreFree = new Float64Array(cores)
  const took = passed
    .toSorted((left, right) => left.asked - right.asked)
    .map(({ arrived, asked, database }) => {
      const next = coreFree.indexOf(Math.min(...coreFree))
      coreFree[next] = Math.max(asked, coreFree[next]!) + around(database)
      return (coreFree[next]! - arrived) / 1000
    })
    .toSorted((left, right) => left - right)

  const busy = (of: keyof Cost, by: number) => sum(kinds.map((kind) => kind.per_second * kind[of])) / 1e6 / by
  return {
    replica_busy: busy("replica", replicas),
    database_busy: busy("database", cores),
    p50_ms: took[requests >> 1]!,
    p99_ms: took[Math.floor(requests * 0.99)]!
  }
}

/** The cost in the row of that name in docs/benchmarks.md, or the assumed one if there is no such row yet. */
export const costOf = (page: string, row: string, assumed: Cost): Cost => {
  const cells = page.split("\n").find((line) => line.startsWith(`| ${row} |`))
  const [, , , , replica, database] = cells?.split("|").slice(1) ?? []
  return cells === undefined ? assumed : { replica: Number(replica), database: Number(database) }
}

/** The requests per second of a number of Bridges and their agents. */
export const loadOf = (
  page: string,
  bridges: number,
  every: { readonly lookup: number; readonly rotation: number; readonly tool: number }
): ReadonlyArray<Kind> => [
  {
    name: "lookup",
    per_second: bridges / every.lookup,
    ...costOf(page, "tokens/self", { replica: 160, database: 50 })
  },
  {
    name: "rotation",
    per_second: bridges / every.rotation,
    ...costOf(page, "rotation, prepare and confirm", { replica: 750, database: 950 })
  },
  {
    name: "tool call",
    per_second: bridges / every.tool,
    ...costOf(page, "memory_search", { replica: 900, database: 2000 })
  }
]

const table = () => {
  const { values } = parseArgs({
    options: {
      bridges: { type: "string", default: "10000,100000,300000" },
      replicas: { type: "string", default: "1,2,4,8" },
      cores: { type: "string", default: "4" },
      // The seconds between two requests of one Bridge.
      lookup: { type: "string", default: "60" },
      rotation: { type: "string", default: String(0.7 * 86_400) },
      tool: { type: "string", default: "300" },
      seed: { type: "string", default: "1" }
    }
  })
  const list = (text: string) => text.split(",").map(Number)
  const page = readFileSync(join(import.meta.dirname, "../docs/benchmarks.md"), "utf8")
  const every = { lookup: Number(values.lookup), rotation: Number(values.rotation), tool: Number(values.tool) }
  const cores = Number(values.cores)
  const percent = (share: number) => `${(share * 100).toFixed(0)} %`
  const costs = loadOf(page, 1, every).map((kind) => `| ${kind.name} | ${kind.replica} | ${kind.database} |`)
  const rows = list(values.bridges).flatMap((bridges) => {
    const load = loadOf(page, bridges, every)
    const rate = sum(load.map(({ per_second }) => per_second)).toFixed(0)
    return list(values.replicas).map((replicas) => {
      const seen = simulate(load, { replicas, cores }, { seed: Number(values.seed) })
      const keepsUp = Math.max(seen.replica_busy, seen.database_busy) < 1
      const times = keepsUp ? [seen.p50_ms.toFixed(1), seen.p99_ms.toFixed(1)] : ["", "too much"]
      const cells = [bridges, rate, replicas, percent(seen.replica_busy), percent(seen.database_busy), ...times]
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
