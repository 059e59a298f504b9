/**
 * Limits how long an operation may take, including the wait for a connection.
 *
 * A separate timer for each operation would cost a tenth of a lookup's time. So one interval checks all operations four
 * times a second, and an operation may exceed the limit by up to 250 ms. The interval runs only while operations are
 * pending.
 */
import { Clock, Context, Effect, Fiber } from "effect"

/** Nanoseconds. */
const limit = 5_000_000_000n
/** Milliseconds. */
const interval = 250
/** How long to wait for an interrupted operation to end; on a silent connection it may never end. */
const grace = "1 second"

/** Data only: V8 promotes closures that objects hold to old space, where collecting them is expensive. */
interface Operation {
  readonly clock: Clock.Clock
  readonly until: bigint
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly resume: (late: Effect.Effect<never, any>) => void
  readonly late: Effect.Effect<never, unknown>
}

const pending = new Set<Operation>()
let timer: NodeJS.Timeout | undefined

const add = (operation: Operation) => {
  pending.add(operation)
  timer ??= setInterval(check, interval).unref()
}

const check = () => {
  // The check stops the interval, not the last operation, so that the interval survives the gap between two requests.
  if (pending.size === 0) {
    clearInterval(timer)
    timer = undefined
  }
  for (const { clock, fiber, late, resume, until } of pending) {
    if (clock.monotonicTimeNanosUnsafe() < until) continue
    resume(Effect.andThen(Effect.timeoutOption(Fiber.interrupt(fiber), grace), late))
  }
}

/** Interrupts an operation that exceeds the limit and runs `late` instead. */
export const inTime =
  <E2>(late: Effect.Effect<never, E2>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | E2, R> =>
    Effect.contextWith((context: Context.Context<R>) =>
      Effect.callback<A, E | E2>((resume) => {
        const fiber = Effect.runForkWith(context)(self)
        const clock = Context.get(context, Clock.Clock)
        const operation = { clock, until: clock.monotonicTimeNanosUnsafe() + limit, fiber, resume, late }
        add(operation)
        fiber.addObserver((exit) => {
          pending.delete(operation)
          resume(exit)
        })
        return Fiber.interrupt(fiber)
      })
    )
