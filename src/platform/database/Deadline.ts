/**
 * How long an operation may take, waiting for a connection included.
 *
 * A timer for each, in a fiber of its own, is a tenth of what a lookup costs. So one for all looks at them four times a
 * second, and an operation may get that much more.
 */
import { Clock, Context, Effect, Fiber } from "effect"

/** Nanoseconds. */
const limit = 5_000_000_000n
/** Milliseconds. */
const interval = 250
/** How long to wait until what was interrupted has had no effect; on a silent line nobody can tell. */
const grace = "1 second"

/** No closure of its own: V8 takes those that are kept in a property for old, and what is old is dear to collect. */
interface Operation {
  readonly clock: Clock.Clock
  readonly until: bigint
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly resume: (late: Effect.Effect<never, any>) => void
  readonly late: Effect.Effect<never, unknown>
}

const running = new Set<Operation>()

const look = () => {
  for (const { clock, fiber, late, resume, until } of running) {
    if (clock.monotonicTimeNanosUnsafe() < until) continue
    resume(Effect.andThen(Effect.timeoutOption(Fiber.interrupt(fiber), grace), late))
  }
}
setInterval(look, interval).unref()

/** Interrupts what is not done in time and answers `late` instead. */
export const inTime =
  <E2>(late: Effect.Effect<never, E2>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | E2, R> =>
    Effect.contextWith((context: Context.Context<R>) =>
      Effect.callback<A, E | E2>((resume) => {
        const fiber = Effect.runForkWith(context)(self)
        const clock = Context.get(context, Clock.Clock)
        const operation = { clock, until: clock.monotonicTimeNanosUnsafe() + limit, fiber, resume, late }
        running.add(operation)
        fiber.addObserver((exit) => {
          running.delete(operation)
          resume(exit)
        })
        return Fiber.interrupt(fiber)
      })
    )
