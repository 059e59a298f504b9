/** Progress of a long command, on stderr, and only if stderr is a terminal. */
import { Console, Effect } from "effect"

const interval = 10_000

/** Returns a reporter of row counts by table; it prints a line after every ten thousand rows. */
export const progress = (verb: string) => {
  let printed = 0
  return (counts: Readonly<Record<string, number>>) => {
    const rows = Object.values(counts).reduce((sum, count) => sum + count, 0)
    if (rows - printed < interval || !process.stderr.isTTY) return Effect.void
    printed = rows
    return Console.error(`${verb} ${rows} rows`)
  }
}
