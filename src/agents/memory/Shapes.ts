/** Inputs and outputs of the memory tools (spec 2.8, 4.11). */
import { Schema, Struct } from "effect"
import { IdempotencyKey } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { optionalProse, prose } from "../../wire/Text.ts"
import { between, Cursor, ItemId, Name, Tags, Title, Verbose } from "../continuity/Shapes.ts"

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
  idempotency_key: Schema.optionalKey(IdempotencyKey),
  verbose: Schema.optionalKey(Verbose)
})
export type MemoryAdd = typeof MemoryAdd.Type
/** What a write returns of an entry: the rest only if its caller asks for it. */
export const EntryBrief = Schema.Struct({
  ...Struct.map(MemoryEntry.fields, Schema.optionalKey),
  ...Struct.pick(MemoryEntry.fields, ["id", "kind", "title", "active", "created_at"])
})
export const briefEntry = (entry: MemoryEntry, verbose: boolean | undefined): typeof EntryBrief.Type =>
  verbose === true ? entry : Struct.pick(entry, ["id", "kind", "title", "active", "created_at"])

/** Another active entry about the same. `score`: 1 would be the same words. */
export const Similar = Schema.Struct({
  id: MemoryEntry.fields.id,
  kind: Kind,
  title: MemoryEntry.fields.title,
  score: Schema.Finite
})
export type Similar = typeof Similar.Type
/** What is remembered for an idempotency_key. Earlier releases looked for no similar entries. */
export const AddedEntry = Schema.Struct({ ...MemoryEntry.fields, similar: Schema.optionalKey(Schema.Array(Similar)) })
export type AddedEntry = typeof AddedEntry.Type
export const MemoryAdded = Schema.Struct({
  entry: EntryBrief,
  similar: Schema.Array(Similar),
  replayed: Schema.Boolean
})

export const MemoryArchive = Schema.Struct({ id: ItemId })
export const MemoryArchived = Schema.Struct({ entry: EntryBrief })

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

/**
 * Why a search found an entry. `words`: it has words of the query. `related`: it has other forms of them, or other words for
 * the same. `context`: entries that were written beside it match. `meaning`: its vector is near the query's.
 */
export const Reason = Schema.Literals(["words", "related", "context", "meaning"])
export const MemoryHit = Schema.Struct({
  ...MemoryExcerpt.fields,
  score: Schema.optionalKey(Schema.Finite),
  matched: Schema.optionalKey(Schema.Array(Reason))
})
export type MemoryHit = typeof MemoryHit.Type

/**
 * `ranked`: by relevance, one page only. `recent`: newest first, because there is no query or it has only stop words.
 * `semantic`, only of a project whose entries have vectors: whether meaning counted, or the endpoint did not answer in time.
 */
export const MemoryHits = Schema.Struct({
  entries: Schema.Array(MemoryHit),
  next_cursor: Schema.optionalKey(Schema.String),
  matched: Schema.Literals(["ranked", "recent"]),
  semantic: Schema.optionalKey(Schema.Boolean)
})
export type MemoryHits = typeof MemoryHits.Type
