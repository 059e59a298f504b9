/** Prints the result of a benchmark: one JSON object, then a Markdown table with a row per figure. */
import type { Measured } from "./load/load.ts"

/** One round; CPU and memory are absent if the process under load is unknown. */
export type Round = Measured & {
  readonly cpu_us?: number
  readonly database_cpu_us?: number
  readonly rss_mib?: number
}

export interface Figure {
  readonly name: string
  readonly per_second?: number
  readonly p50_ms?: number
  readonly p99_ms?: number
  readonly cpu_us?: number
  readonly database_cpu_us?: number
  readonly rss_mib?: number
  readonly ratio?: Ratio
  readonly note?: string
}

export interface Ratio {
  readonly of: "rate" | "CPU" | "database CPU" | "p50" | "p99"
  readonly median: number
  readonly low: number
  readonly high: number
  readonly rounds: number
  readonly aim?: { readonly least: number } | { readonly most: number } | undefined
}

/** The median over the rounds of each number. */
export const figure = (
  name: string,
  rounds: ReadonlyArray<Partial<Round>>,
  rest: Pick<Figure, "ratio" | "note"> = {}
): Figure => {
  const medians = (["per_second", "p50_ms", "p99_ms", "cpu_us", "database_cpu_us", "rss_mib"] as const).flatMap(
    (key) => {
      const values = rounds.flatMap((round) => round[key] ?? [])
      return values.length === 0 ? [] : [[key, median(values)]]
    }
  )
  return { name, ...Object.fromEntries(medians), ...rest }
}

/** The service's number divided by the peer's, round by round, so that a busy machine affects both alike. */
export const ratio = (
  of: Ratio["of"],
  service: ReadonlyArray<Partial<Round>>,
  peer: ReadonlyArray<Partial<Round>>,
  aim?: Ratio["aim"]
): Ratio => {
  const number = ({ cpu_us, database_cpu_us, p50_ms, p99_ms, per_second }: Partial<Round>) =>
    ({ rate: per_second, CPU: cpu_us, "database CPU": database_cpu_us, p50: p50_ms, p99: p99_ms })[of]!
  const ratios = service.map((round, index) => number(round) / number(peer[index]!))
  return { of, median: median(ratios), low: Math.min(...ratios), high: Math.max(...ratios), rounds: ratios.length, aim }
}

const median = (values: ReadonlyArray<number>) => {
  const sorted = values.toSorted((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2
}

export const report = (bench: string, figures: ReadonlyArray<Figure>) => {
  process.stdout.write(`${JSON.stringify({ bench, figures })}\n${header}\n${figures.map(row).join("\n")}\n`)
}

const header = [
  "| what | per second | p50 ms | p99 ms | CPU µs each | database CPU µs | RSS MiB | service / this row | aim |",
  "|---|--:|--:|--:|--:|--:|--:|---|---|"
].join("\n")

const row = ({ cpu_us, database_cpu_us, name, note, p50_ms, p99_ms, per_second, ratio, rss_mib }: Figure) => {
  const compared =
    ratio && `${ratio.of} ${two(ratio.median)} (${two(ratio.low)} to ${two(ratio.high)}, ${ratio.rounds} rounds)`
  const numbers = [whole(per_second), one(p50_ms), one(p99_ms), whole(cpu_us), whole(database_cpu_us), whole(rss_mib)]
  const cells = [name, ...numbers, compared ?? note ?? "", ratio === undefined ? "" : verdict(ratio)]
  return `| ${cells.join(" | ")} |`
}

const verdict = ({ aim, median }: Ratio) => {
  if (aim === undefined) return ""
  return "least" in aim
    ? `≥ ${aim.least}: ${median >= aim.least ? "met" : "missed"}`
    : `≤ ${aim.most}: ${median <= aim.most ? "met" : "missed"}`
}

const digits = (count: number) => (value?: number) => value?.toFixed(count) ?? ""
const [whole, one, two] = [digits(0), digits(1), digits(2)]
