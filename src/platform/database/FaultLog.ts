/**
 * Log lines of a fault that meets every request: the first one at once, then for each kind one a second with a `count` of
 * what happened since the line before. A line for each request would bury the cause, and fill the disk.
 */
import { Effect, References } from "effect"

/** Milliseconds. */
const interval = 1000

/** Events of each kind since its last line. A kind is forgotten after a second without events. */
const kinds = new Map<string, { count: number }>()

/** `facts` tell the kind and are logged with it, so they hold no ids. */
export const logFault = (message: string, facts: Readonly<Record<string, unknown>>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const name = JSON.stringify([message, facts])
    const known = kinds.get(name)
    if (known !== undefined) {
      known.count++
      return Effect.void
    }
    const kind = { count: 0 }
    kinds.set(name, kind)
    const line = (count: number) => Effect.logWarning(message).pipe(Effect.annotateLogs({ ...facts, count }))
    const following = Effect.gen(function* () {
      yield* pause
      while (kind.count > 0) {
        yield* line(kind.count)
        kind.count = 0
        yield* pause
      }
      kinds.delete(name)
    })
    // The later lines are about other requests than the one whose annotations are in force here.
    return Effect.andThen(
      line(1),
      Effect.forkDetach(Effect.provideService(following, References.CurrentLogAnnotations, {}))
    )
  })

const pause = Effect.callback<void>((resume) => {
  const timer = setTimeout(() => resume(Effect.void), interval).unref()
  return Effect.sync(() => clearTimeout(timer))
})
