/** What is logged of a request that failed: names and places only, because a message may quote what was sent. */
import { Cause, Effect } from "effect"
import { StatementDefect } from "../database/Persistence.ts"

export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.hasInterruptsOnly(cause)
    ? Effect.void
    : Effect.logError("A request failed").pipe(Effect.annotateLogs(withoutValues(cause)))

const withoutValues = (cause: Cause.Cause<unknown>) => {
  const defect = Cause.squash(cause)
  if (defect instanceof StatementDefect) return { ...defect }
  if (!(defect instanceof Error)) return { defect: typeof defect }
  return {
    defect: defect.name,
    at:
      defect.stack
        ?.split("\n")
        .filter((line) => /^\s+at /.test(line))
        .join("\n") ?? ""
  }
}
