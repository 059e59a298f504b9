/** The limits of a project: their names in tool results, commands and metrics, and their defaults. */

export const defaults = {
  /** Bytes of UTF-8: text of memory, tasks, receipts and remembered answers. The search index may have four times as much. */
  stored_bytes: 1_073_741_824,
  entries: 200_000,
  tasks: 50_000,
  /** Tool calls that run at the same time in one process, searches included. */
  concurrent_calls: 8,
  concurrent_searches: 2,
  searches_per_minute: 600,
  writes_per_minute: 600,
  /** Open sessions of the console. */
  sessions: 200,
  /** Channels that are not revoked. */
  channels: 10
} as const

export type LimitName = keyof typeof defaults
/**
 * `embeddings`: 0 if no text of the project may be sent for embeddings, else 1. `memory_days` and `receipt_days`: how long
 * memory entries and receipts are kept, 0 for ever.
 */
export type Changed = LimitName | "embeddings" | "memory_days" | "receipt_days"
export const limitNames = Object.keys(defaults) as ReadonlyArray<LimitName>

/** The maxima that differ from the defaults, as `project.limits` stores them. */
export type OwnLimits = Readonly<Record<string, number>>

export const maximumOf = (own: OwnLimits, name: LimitName): number => own[name] ?? defaults[name]

/** How many bytes of search index a project may have for each byte of text. */
const indexShare = 4

/** The maxima of `project_usage`, by its columns. */
export const storedMaxima = (own: OwnLimits) => ({
  stored_bytes: maximumOf(own, "stored_bytes"),
  index_bytes: indexShare * maximumOf(own, "stored_bytes"),
  entries: maximumOf(own, "entries"),
  tasks: maximumOf(own, "tasks")
})
