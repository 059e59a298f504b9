/** What the terminal at stdout can show. */
import { DateTime } from "effect"
import type { Screen } from "./table.ts"

/** Follows NO_COLOR and TERM. */
const isColoured = process.stdout.isTTY && process.stdout.hasColors()

/** Undefined if stdout is not a terminal. */
export const screen = (): Screen | undefined =>
  process.stdout.isTTY
    ? { columns: process.stdout.columns || 80, now: DateTime.toEpochMillis(DateTime.nowUnsafe()), isColoured }
    : undefined

export const bold = (text: string) => (isColoured ? `\u001B[1m${text}\u001B[0m` : text)
