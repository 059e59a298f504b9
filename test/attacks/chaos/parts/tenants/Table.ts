/** The times of the honest project in the phases of each round, compared by group of operations. */
import { percentile } from "../../harness.ts"
import { means } from "./Hostile.ts"
import type { Timed } from "./Honest.ts"

type Times = ReadonlyArray<Timed>

export interface Round {
  /** The means that the hostile project used. */
  readonly names: ReadonlyArray<string>
  readonly alone: Times
  /** While the hostile project attacked another instance on the machine. */
  readonly control: Times
  readonly attacked: Times
}

/** Milliseconds, of the requests of one group, or of `all`. */
export const rowOf = ({ alone, attacked, control, names }: Round, group: string) => {
  const millisOf = (timed: Times) =>
    timed.filter((one) => group === "all" || one.group === group).map(({ millis }) => millis)
  const p99 = (timed: Times) => Math.round(percentile(millisOf(timed), 0.99) * 10) / 10
  return {
    means: names.length === Object.keys(means).length ? "all" : names.join(),
    group,
    requests: millisOf(attacked).length,
    alone_ms: p99(alone),
    control_ms: p99(control),
    beside_ms: p99(attacked)
  }
}
type Row = ReturnType<typeof rowOf>

export const rowsOf = (round: Round): ReadonlyArray<Row> =>
  ["all", ...new Set(round.alone.map(({ group }) => group))].map((group) => rowOf(round, group))

/** Lines for people. */
export const shown = (table: ReadonlyArray<Row>) =>
  [
    ["means", "group", "requests", "p99 alone", "control", "beside"],
    ...table.map((row) => [row.means, row.group, row.requests, row.alone_ms, row.control_ms, row.beside_ms])
  ]
    .map(([means, group, ...numbers]) =>
      [String(means).padEnd(20), String(group).padEnd(8), ...numbers.map((n) => String(n).padStart(10))].join(" ")
    )
    .join("\n")
    .concat("\n")
