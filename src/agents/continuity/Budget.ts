/** What an agent's write adds to its project, and the refusal when that is too much (decisions.md, Budgets of a project). */
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { type LimitName, storedMaxima } from "../../operator/limits/LimitNames.ts"
import { type Usage, usageOf } from "../../platform/sql/ProjectUsage.ts"
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
 * Names the limit that stopped a write of about `added`. The caller has excluded every other reason, so it is the limit
 * that is nearest to its maximum.
 */
export const refuseFull = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { limits, project_id }: Pick<Actor, "limits" | "project_id">,
  added: Partial<Usage> = {}
) {
  const maxima = storedMaxima(limits)
  const usage = Option.getOrElse(yield* usageOf(sql, project_id), () => ({
    stored_bytes: 0,
    index_bytes: 0,
    entries: 0,
    tasks: 0
  }))
  const share = (name: keyof Usage) => (usage[name] + (added[name] ?? 0)) / maxima[name]
  const fullest = (Object.keys(maxima) as ReadonlyArray<keyof Usage>).reduce((a, b) => (share(a) >= share(b) ? a : b))
  return yield* limitExceeded(fullest, usage[fullest], maxima[fullest])
})

/** Bytes of UTF-8. */
export const bytesOf = (...texts: ReadonlyArray<string | null>): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0)
