/** What an agent's write adds to its project, and the refusal when that is too much (decisions.md, Budgets of a project). */
import { Context, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { nothing, type Usage, usageOf } from "../../platform/sql/ProjectUsage.ts"
import type { Actor } from "../../wire/Actor.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { refuse } from "./Errors.ts"

/** Counts so many more writes for the call that runs: it has written more than others do. */
export const FurtherWrites = Context.Reference<(writes: number) => Effect.Effect<void>>(
  "service/continuity/FurtherWrites",
  {
    defaultValue: () => () => Effect.void
  }
)

/** A limit that waiting helps with, and how a sentence names it. */
const perTime = {
  concurrent_calls: "calls at once",
  concurrent_searches: "searches at once",
  searches_per_minute: "searches a minute",
  waiters: "waits for a task at once",
  writes_per_minute: "writes a minute"
}

/** `retry_after` in seconds. */
export const limitInUse = (limit: keyof typeof perTime, maximum: number, retry_after: number) =>
  withDetails(
    refuse("limit_exceeded"),
    { limit, value: maximum, maximum, retry_after },
    `The project may make ${maximum} ${perTime[limit]}; try again in ${retry_after} s.`
  )

/** `maximum` in bytes: of one batch, and of all answers that a token's agents have not read. */
export const answersInUse = (maximum: number) =>
  withDetails(
    refuse("limit_exceeded"),
    { limit: "answer_bytes", value: maximum, maximum, retry_after: 1 },
    `The answers of a batch, or those that were not read yet, have more than ${maximum} bytes; ask for fewer at once, or try again in 1 s.`
  )

/** For a project that may make one call at a time, with a rest after each. `retry_after` in seconds. */
export const slowedDown = (retry_after: number) =>
  withDetails(
    refuse("limit_exceeded"),
    { limit: "concurrent_calls", value: 1, maximum: 1, retry_after },
    `The project's calls have taken so much time that it may make one at a time, with a rest after each; try again in ${retry_after} s.`
  )

const limitReached = (limit: keyof Usage, value: number, added: number, maximum: number) =>
  withDetails(
    refuse("limit_exceeded"),
    { limit, value, maximum },
    `The call would add ${added === 0 ? "more" : added}; the project has ${value} of at most ${maximum} ${limit}. Its operator can raise the limit.`
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
  return yield* limitReached(full, usage[full], added[full]!, maxima[full])
})

/** Bytes of UTF-8. */
export const bytesOf = (...texts: ReadonlyArray<string | null>): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0)
