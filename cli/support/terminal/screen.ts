/** What the terminal at stdout can show. */
import { DateTime } from "effect"
import { columns, isColoured } from "./columns.ts"
import type { Screen } from "./table.ts"

/** Undefined if stdout is not a terminal. */
export const screen = (): Screen | undefined => {
  const width = columns()
  return width === undefined
    ? undefined
    : { columns: width, now: DateTime.toEpochMillis(DateTime.nowUnsafe()), isColoured }
}
