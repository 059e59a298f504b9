/**
 * Slows down floods (decisions.md, Rate limits): a caller who does not wait would get its next answer at once, and thousands
 * of the cheapest answers a second would occupy the process. Callers who do wait notice nothing.
 */
import { Effect } from "effect"

/** Refusals that are answered at once in each second. */
const free = 200
/** Milliseconds that an answer waits; as a timer of Node, because it delays answers, not what they depend on. */
const pauseMillis = 250
/** Answers that wait at the same time. */
const most = 2_000

export const makeFloodPauses = () => {
  let second = 0
  let refused = 0
  let waiting = 0

  const pause = Effect.callback<void>((resume) => {
    waiting += 1
    const timer = setTimeout(() => resume(Effect.void), pauseMillis)
    return Effect.sync(() => clearTimeout(timer))
  }).pipe(Effect.ensuring(Effect.sync(() => (waiting -= 1))))
  const wait = Effect.suspend(() => (waiting >= most ? Effect.void : pause))

  return {
    /** Run before what comes too often is answered. */
    wait,
    /** Run before a refusal is sent. */
    waitIfMany: Effect.suspend(() => {
      const now = Math.floor(performance.now() / 1000)
      if (now !== second) [second, refused] = [now, 0]
      refused += 1
      return refused <= free ? Effect.void : wait
    })
  }
}
