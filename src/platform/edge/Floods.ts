/**
 * Slows down floods (decisions.md, Rate limits): a caller who is refused and does not wait would get its next refusal at
 * once, and thousands of refusals a second would occupy the process. Callers who do wait notice nothing.
 */
import { Effect } from "effect"

/** Refusals that are answered at once in each second. */
const free = 200
/** Milliseconds that a further one waits; as a timer of Node, because it delays answers, not what they depend on. */
const pauseMillis = 250
/** Refusals that wait at the same time. */
const most = 2_000

export const makeFloodPause = () => {
  let second = 0
  let refused = 0
  let waiting = 0

  const pause = Effect.callback<void>((resume) => {
    waiting += 1
    const timer = setTimeout(() => resume(Effect.void), pauseMillis)
    return Effect.sync(() => clearTimeout(timer))
  }).pipe(Effect.ensuring(Effect.sync(() => (waiting -= 1))))

  /** Run before a refusal is sent. */
  return Effect.suspend(() => {
    const now = Math.floor(performance.now() / 1000)
    if (now !== second) [second, refused] = [now, 0]
    refused += 1
    return refused <= free || waiting >= most ? Effect.void : pause
  })
}
