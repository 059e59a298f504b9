/**
 * What is hashed in the chains of the audit log (decisions.md, Evidence).
 *
 *     row   {"action":…,"actor":…,"address":…,"at":"2026-11-23T00:00:00.000000Z",…}   the columns of audit_event
 *     head  SHA-256(previous head, "[", row, ",", row, …, "]")                         raw bytes, then UTF-8
 *
 * Rows are canonical JSON (RFC 8785): names sorted, no spaces. The head before the first is 32 zero bytes.
 */
import { Schema } from "effect"
import { createHash } from "node:crypto"

/** A row of audit_event as it is hashed; `at` with microseconds, as the database keeps it. */
export const HashedRow = Schema.Struct({
  event_id: Schema.String,
  at: Schema.String,
  project_id: Schema.NullOr(Schema.String),
  actor: Schema.String,
  action: Schema.String,
  outcome: Schema.String,
  code: Schema.NullOr(Schema.String),
  subject: Schema.Unknown,
  address: Schema.String,
  user_agent: Schema.String
})
export type HashedRow = typeof HashedRow.Type

export const noHead: Uint8Array = new Uint8Array(32)

export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`
}

/** Where a row differs, if its block's head does. */
export const digestOf = (row: string): Uint8Array => createHash("sha256").update(row).digest().subarray(0, 8)

/** The head after the given rows, one by one, so that a block of any size needs no memory. */
export const headAfter = (previous: Uint8Array) => {
  const hash = createHash("sha256").update(previous)
  let before = "["
  return {
    add: (row: string) => {
      hash.update(before).update(row)
      before = ","
    },
    head: (): Uint8Array => hash.update("]").digest()
  }
}
