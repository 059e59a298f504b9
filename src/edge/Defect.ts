/** What may be logged of a defect: names and places only, because a message may quote what was sent. */
import { Cause } from "effect"
import { StatementDefect } from "../database/Persistence.ts"

export const factsOf = (cause: Cause.Cause<unknown>): Record<string, string> => {
  const defect = Cause.squash(cause)
  if (defect instanceof StatementDefect) {
    const { constraint, reason, sqlstate } = defect
    return { reason, sqlstate, constraint }
  }
  if (!(defect instanceof Error)) return { defect: typeof defect }
  const places = defect.stack?.split("\n").filter((line) => /^\s+at /.test(line)) ?? []
  return { defect: defect.name, at: places.join("\n") }
}
