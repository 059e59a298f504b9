/** Tells failures that a retry can fix from defects, and logs the defects. */
import { Cause, Effect, Option } from "effect"
import { withoutValues } from "../database/Persistence.ts"
import { Refusal } from "../../wire/Refusal.ts"

/** Logs a defect. Interruptions are not logged: the client went away. */
export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.hasInterruptsOnly(cause)
    ? Effect.void
    : Effect.logError("A request failed").pipe(Effect.annotateLogs(withoutValues(cause)))

/** Whether the database was unavailable: Persistence.ts has logged that, and a retry can succeed. */
export const isTransient = (cause: Cause.Cause<unknown>): boolean => {
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  return failure instanceof Refusal && failure._tag === "bridge_persistence_error"
}
