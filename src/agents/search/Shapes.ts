/** The search over everything that a project has: memory, tasks, receipts and pinned documents. */
import { Schema } from "effect"
import { Instant } from "../../wire/Instant.ts"
import { prose } from "../../wire/Text.ts"
import { atMost, between } from "../continuity/Shapes.ts"

export const sources = ["memory", "tasks", "receipts", "documents"] as const
export const Source = Schema.Literals(sources)
export type Source = typeof Source.Type

export const SearchRequest = Schema.Struct({
  query: prose(1000),
  in: Schema.optionalKey(atMost(Source, sources.length).check(Schema.isMinLength(1))),
  limit: Schema.optionalKey(between(1, 50))
})
export type SearchRequest = typeof SearchRequest.Type

/** `id` is what the tool of the source takes: memory_get, task_get, git_document_get; a receipt is in its task. */
export const Hit = Schema.Struct({
  in: Source,
  id: Schema.String,
  title: Schema.String,
  /** The text around the first match; empty for a document. */
  excerpt: Schema.String,
  actor: Schema.String,
  at: Instant,
  /** The task that it is, or is about. */
  task_id: Schema.NullOr(Schema.String),
  /** The line of a document's first match. */
  start_line: Schema.NullOr(Schema.Int)
})
export type Hit = typeof Hit.Type

/** The best first. `semantic` is that of memory's hits; see `MemoryHits`. */
export const SearchHits = Schema.Struct({ hits: Schema.Array(Hit), semantic: Schema.optionalKey(Schema.Boolean) })
export type SearchHits = typeof SearchHits.Type
