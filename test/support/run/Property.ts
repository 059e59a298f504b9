/** Random inputs for an effect: MODEL_RUNS of them, 40 unless told. */
import { Effect } from "effect"
import * as fc from "fast-check"

const numRuns = Number(process.env["MODEL_RUNS"] ?? 40)

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

/** Thousands of runs take longer than a test usually may. */
export const patience = 3_600_000
