/** A request that failed outside of what its handler answers. */
import { Cause, Effect, Option } from "effect"
import { withoutValues } from "../database/Persistence.ts"
import { Refusal } from "../../wire/Refusal.ts"

/** The one log line of a failure of ours. */
export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.hasInterruptsOnly(cause)
    ? Effect.void
    : Effect.logError("A request failed").pipe(Effect.annotateLogs(withoutValues(cause)))

/** The database was away: that was logged where it was noticed, and may have passed when the caller tries again. */
export const isPassing = (cause: Cause.Cause<unknown>): boolean => {
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  return failure instanceof Refusal && failure._tag === "bridge_persistence_error"
}
