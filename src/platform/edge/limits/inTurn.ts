/** Takes turns with a time limit for the wait. */
import { Clock, Effect, type Exit, Option, PartitionedSemaphore } from "effect"

/** One permit is one turn. */
export interface Permits {
  readonly take: (permits: number) => Effect.Effect<unknown>
  readonly release: (permits: number) => Effect.Effect<unknown>
}

export interface Watch {
  /** Gets the milliseconds at which the call started. */
  readonly started: (since: number) => void
  /** Gets the same, the present time and the outcome, and returns for how many milliseconds the turn rests. */
  readonly ended: (since: number, now: number, exit: Exit.Exit<unknown, unknown>) => Effect.Effect<number>
}

const unwatched: Watch = { started: () => {}, ended: () => Effect.succeed(0) }

/**
 * Runs a call in a turn, or `late` if there is no turn by the time `until` (milliseconds).
 */
export const inTurn =
  (turns: Permits, until: number, { ended, started }: Watch = unwatched) =>
  <A, E, R, E2>(call: Effect.Effect<A, E, R>, late: Effect.Effect<A, E2>) =>
    Effect.acquireUseRelease(
      Effect.gen(function* () {
        const wait = Math.max(0, until - (yield* Clock.currentTimeMillis))
        const taken = yield* Effect.interruptible(Effect.timeoutOption(turns.take(1), wait))
        if (Option.isNone(taken)) return undefined
        const since = yield* Clock.currentTimeMillis
        started(since)
        return since
      }),
      (since): Effect.Effect<A, E | E2, R> => (since === undefined ? late : call),
      (since, exit) => {
        if (since === undefined) return Effect.void
        return Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const milliseconds = yield* ended(since, now, exit)
          const release = turns.release(1)
          if (milliseconds > 0) yield* Effect.forkDetach(Effect.delay(release, milliseconds))
          else yield* release
        })
      }
    )

/** So many turns for all, given to owners in rotation. `longest`: how many milliseconds a call waits. */
export const turnsBetween = (permits: number) =>
  Effect.map(PartitionedSemaphore.make<string>({ permits }), (turns) => {
    const of = (owner: string) => ({ take: () => turns.take(owner, 1), release: turns.release })
    return (owner: string, longest: number) =>
      <A, E, R, E2>(call: Effect.Effect<A, E, R>, late: Effect.Effect<A, E2>) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => inTurn(of(owner), now + longest)(call, late))
  })
