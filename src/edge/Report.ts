/** What is logged of a request that failed: names and places only, because a message may quote what was sent. */
import { Cause, Effect } from "effect"
import { withoutValues } from "../database/Persistence.ts"

export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.hasInterruptsOnly(cause)
    ? Effect.void
    : Effect.logError("A request failed").pipe(Effect.annotateLogs(withoutValues(cause)))
