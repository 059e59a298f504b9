/** What an agent's write adds to its project, and the refusal when that is too much (decisions.md, Budgets of a project). */
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { type LimitName, storedMaxima } from "../../operator/limits/LimitNames.ts"
import { nothing, type Usage, usageOf } from "../../platform/sql/ProjectUsage.ts"
import type { Actor } from "../../wire/Actor.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { refuse } from "./Errors.ts"

/** `retry_after` in seconds, if the limit is one that time mends. */
export const limitExceeded = (limit: LimitName | keyof Usage, value: number, maximum: number, retry_after?: number) =>
  withDetails(
    refuse("limit_exceeded"),
    { limit, value, maximum, ...(retry_after === undefined ? undefined : { retry_after }) },
    retry_after === undefined
      ? `The project has ${value} of at most ${maximum} ${limit}; ask its operator to raise the limit.`
      : `The project may have ${maximum} ${limit}; try again in ${retry_after} s.`
  )

/**
 * Names the limit that stopped a write for which the caller has excluded every other reason: the first of `added` that
 * does not fit, else the last one. Only the statement knows the bytes of its postings, so `index_bytes` comes last.
 */
export const refuseFull = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { limits, project_id }: Pick<Actor, "limits" | "project_id">,
  added: Partial<Usage>
) {
  const maxima = storedMaxima(limits)
  const usage = Option.getOrElse(yield* usageOf(sql, project_id), () => nothing)
  const names = Object.keys(added) as ReadonlyArray<keyof Usage>
  const full = names.find((name) => usage[name] + added[name]! > maxima[name]) ?? names.at(-1)!
  return yield* limitExceeded(full, usage[full], maxima[full])
})

/** Bytes of UTF-8. */
export const bytesOf = (...texts: ReadonlyArray<string | null>): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0)
