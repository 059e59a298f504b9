/** Inputs and outputs of the document tools (spec 4.11): references, and bounded fragments of text. */
import { Schema } from "effect"
import { between, ItemId, largestInt } from "../continuity/Shapes.ts"

export const DocumentReference = Schema.Struct({
  document_id: Schema.String,
  title: Schema.String,
  repository: Schema.String,
  commit: Schema.String,
  path: Schema.String,
  blob_oid: Schema.String,
  sha256: Schema.String,
  size_bytes: Schema.Int,
  line_count: Schema.Int
})
export type DocumentReference = typeof DocumentReference.Type

/** A reference as the operator sees it. Agents get those with `bootstrap` first. */
export const PinnedDocument = Schema.Struct({
  ...DocumentReference.fields,
  bootstrap: Schema.Boolean,
  pinned_at: Schema.Date
})
export type PinnedDocument = typeof PinnedDocument.Type

export const Bootstrap = Schema.Struct({ documents: Schema.Array(DocumentReference) })

export const DocumentGet = Schema.Struct({
  document_id: ItemId,
  offset: Schema.optionalKey(between(0, largestInt)),
  start_line: Schema.optionalKey(between(1, largestInt)),
  max_bytes: Schema.optionalKey(between(1, 32_768)),
  expected_blob_oid: Schema.optionalKey(Schema.String)
})
export type DocumentGet = typeof DocumentGet.Type

export const DocumentFragment = Schema.Struct({
  document_id: Schema.String,
  commit: Schema.String,
  path: Schema.String,
  blob_oid: Schema.String,
  offset: Schema.Int,
  end_offset: Schema.Int,
  total_bytes: Schema.Int,
  start_line: Schema.Int,
  end_line: Schema.Int,
  text: Schema.String,
  next_offset: Schema.NullOr(Schema.Int),
  eof: Schema.Boolean
})
export type DocumentFragment = typeof DocumentFragment.Type
