/** How far a long command is, on stderr, where a person watches. */
import { Console, Effect } from "effect"

const every = 10_000

/** Says it each time another ten thousand rows are through. */
export const progress = (done: string) => {
  let said = 0
  return (counts: Readonly<Record<string, number>>) => {
    const rows = Object.values(counts).reduce((sum, count) => sum + count, 0)
    if (rows - said < every || !process.stderr.isTTY) return Effect.void
    said = rows
    return Console.error(`${done} ${rows} rows`)
  }
}
