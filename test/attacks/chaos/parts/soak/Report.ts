/** The figures of a soak as the tables of docs/proof.md; of the times, those that are judged. */
import { enough, type growths, type timesOf, type Window } from "./Judge.ts"

const table = (head: ReadonlyArray<string>, lines: ReadonlyArray<ReadonlyArray<string | number>>) =>
  [head, head.map((_, n) => (n === 0 ? "---" : "--:")), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

export const report = (given: {
  readonly times: ReturnType<typeof timesOf>
  readonly memory: ReturnType<typeof growths>
  readonly windows: ReadonlyArray<Window>
  readonly rows: ReadonlyArray<Readonly<Record<string, number>>>
}) => {
  const { memory, rows, times, windows } = given
  const kinds = [...times]
    .filter(([, { after, before }]) => Math.min(before.requests, after.requests) >= enough.p50)
    .map(([kind, row]) => ({ kind, ...row, requests: total(row.sixths) }))
    .toSorted((left, right) => right.requests - left.requests)
  return [
    table(
      ["p50 / p99 in ms", "1st sixth", "2nd", "3rd", "4th", "5th", "6th", "2nd and 3rd", "5th and 6th", "requests"],
      kinds.map(({ after, before, kind, requests, sixths }) => [
        `\`${kind}\``,
        ...[...sixths, before, after].map(({ p50, p99 }) => `${p50} / ${p99}`),
        requests
      ])
    ),
    table(
      ["Process", "MiB a minute", "files a minute", "most MiB"],
      memory.map(({ files, mib, process, top_mib }) => [process, mib, files, top_mib])
    ),
    table(
      ["Fault", "seconds"],
      windows.map(({ from, to, why }) => [why, Math.round((to - from) / 100) / 10])
    ),
    table(
      ["Rows after each sixth", ...rows.map((_, n) => `${n + 1}`)],
      Object.keys(rows[0] ?? {}).map((name) => [`\`${name}\``, ...rows.map((row) => row[name]!)])
    )
  ].join("\n\n")
}

const total = (row: ReadonlyArray<{ readonly requests: number }>) =>
  row.reduce((sum, { requests }) => sum + requests, 0)
