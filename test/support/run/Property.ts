/** Runs an effect with random inputs, MODEL_RUNS times (default 15). */
import { Effect } from "effect"
import * as fc from "fast-check"

const numRuns = Number(process.env["MODEL_RUNS"] ?? 15)

export const forAll = <T, E, R>(
  inputs: fc.Arbitrary<T>,
  property: (input: T) => Effect.Effect<void, E, R>,
  parameters: fc.Parameters<[T]> = {}
) =>
  Effect.flatMap(Effect.context<R>(), (context) =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(inputs, (input) => Effect.runPromiseWith(context)(property(input))),
        { numRuns, ...parameters }
      )
    )
  )

/** Test timeout in milliseconds, long enough for thousands of runs. */
export const patience = 3_600_000
