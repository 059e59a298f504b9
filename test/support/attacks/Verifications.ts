/** Counts how many signatures this process verifies. */
import { Effect } from "effect"
import crypto from "node:crypto"
import { syncBuiltinESMExports } from "node:module"

export const verifications = <A, E, R>(run: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const { verify } = crypto
      const counted = { count: 0 }
      const counting = (...given: Parameters<typeof verify>) => {
        counted.count += 1
        return verify(...given)
      }
      replace(counting as typeof verify)
      return { counted, verify }
    }),
    ({ counted }) => Effect.map(run, (result) => ({ result, count: counted.count })),
    ({ verify }) => Effect.sync(() => replace(verify))
  )

const replace = (verify: typeof crypto.verify) => {
  crypto.verify = verify
  syncBuiltinESMExports()
}
