/** Inputs and outputs of the memory tools (spec 2.8, 4.11). */
import { Schema } from "effect"
import { IdempotencyKey } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { optionalProse, prose } from "../../wire/Text.ts"
import { between, Cursor, ItemId, Name, Tags, Title } from "../continuity/Shapes.ts"

export const Kind = Schema.Literals(["note", "decision"])
export const Body = prose(16_384)

export const MemoryEntry = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  body: Schema.String,
  tags: Schema.Array(Schema.String),
  active: Schema.Boolean,
  supersedes: Schema.NullOr(Schema.String),
  superseded_by: Schema.NullOr(Schema.String),
  superseded_at: Schema.NullOr(Instant),
  provenance: Schema.Struct({
    actor: Schema.String,
    role: Schema.String,
    session_ref: Schema.NullOr(Schema.String),
    task_id: Schema.NullOr(Schema.String),
    source: Schema.NullOr(Schema.String)
  }),
  created_at: Instant
})
export type MemoryEntry = typeof MemoryEntry.Type

const { created_at, provenance, ...others } = MemoryEntry.fields
/** An entry as a line of an export holds it, and as the table stores it: without nesting. */
export const FlatEntry = Schema.Struct({ ...others, ...provenance.fields, created_at })

export const MemoryAdd = Schema.Struct({
  kind: Kind,
  body: Body,
  title: Schema.optionalKey(Title),
  tags: Schema.optionalKey(Tags),
  supersedes: Schema.optionalKey(ItemId),
  session_ref: Schema.optionalKey(Name),
  task_id: Schema.optionalKey(ItemId),
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type MemoryAdd = typeof MemoryAdd.Type
export const MemoryAdded = Schema.Struct({ entry: MemoryEntry, replayed: Schema.Boolean })

export const MemoryGet = Schema.Struct({ id: ItemId })
export const MemoryFound = Schema.Struct({ entry: MemoryEntry })

export const MemorySearch = Schema.Struct({
  query: Schema.optionalKey(optionalProse(1000)),
  kind: Schema.optionalKey(Kind),
  tags: Schema.optionalKey(Tags),
  limit: Schema.optionalKey(between(1, 50)),
  cursor: Schema.optionalKey(Cursor)
})
export type MemorySearch = typeof MemorySearch.Type

const { id, kind, tags, title } = MemoryEntry.fields
const { actor, role } = provenance.fields
/** An entry whose body is cut to an excerpt. */
export const MemoryExcerpt = Schema.Struct({
  id,
  kind,
  title,
  excerpt: Schema.String,
  tags,
  actor,
  role,
  created_at
})

export const MemoryHit = Schema.Struct({ ...MemoryExcerpt.fields, score: Schema.optionalKey(Schema.Finite) })
export type MemoryHit = typeof MemoryHit.Type

/**
 * `ranked`: by relevance, one page only. `recent`: newest first, because there is no query or it has only stop words.
 */
export const MemoryHits = Schema.Struct({
  entries: Schema.Array(MemoryHit),
  next_cursor: Schema.optionalKey(Schema.String),
  matched: Schema.Literals(["ranked", "recent"])
})
export type MemoryHits = typeof MemoryHits.Type
