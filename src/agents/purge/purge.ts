/**
 * Destroys entries, tasks and documents with everything derived from them (decisions.md, Erasure). Each runs in the
 * transaction of the caller, who writes the audit row. Readers go on: chains of entries close, what depended on a task no
 * longer waits for it, cursors stand between rows.
 */
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import * as DocumentStore from "../documents/DocumentStore.ts"
import * as Store from "./PurgeStore.ts"

/** Returns false if the project has no such entry. */
export const purgeEntry = Effect.fn("Purge.entry")(function* (
  sql: SqlClient.SqlClient,
  project_id: string,
  id: string
) {
  return (yield* purgeEntries(sql, project_id, [id])) > 0
})

/** At most `limit` of the entries written before an instant; returns how many. */
export const purgeEntriesBefore = Effect.fn("Purge.entriesBefore")(function* (
  sql: SqlClient.SqlClient,
  project_id: string,
  before: Date,
  limit: number
) {
  const old = yield* Store.make(sql).entriesBefore(project_id, before, limit)
  return yield* purgeEntries(
    sql,
    project_id,
    old.map(({ id }) => id)
  )
})

/** What takes long comes before the locks for which every writer of the project waits. */
const purgeEntries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  project_id: string,
  given: ReadonlyArray<string>
) {
  if (given.length === 0) return 0
  const store = Store.make(sql)
  yield* store.deferReferences
  yield* store.lockReindex(project_id)
  const { places } = Option.getOrThrow(yield* store.findPostings(project_id, given))
  const results = bytesOf(yield* store.dropResults(project_id, given))
  yield* store.lockUsage(project_id)
  const index_bytes = bytesOf(yield* store.dropPostings(project_id, given, places))
  const ids = (yield* store.lockEntries(project_id, given)).map(({ id }) => id)
  const answers = bytesOf(yield* store.dropAnswers(project_id, ids))
  for (const { id } of yield* store.embedded(project_id, ids)) yield* store.forgetVector(project_id, id)
  for (const { id } of yield* store.linked(project_id, ids)) {
    const { superseded_by, supersedes } = Option.getOrThrow(yield* store.unlink(project_id, id))
    if (superseded_by !== null) yield* store.relink(project_id, superseded_by, supersedes)
  }
  const entries = bytesOf(yield* store.dropEntries(project_id, ids))
  yield* store.free(project_id, { stored_bytes: results + answers + entries, index_bytes, entries: ids.length })
  return ids.length
})

/** Also its receipts, notes and notices. An entry that keeps the answer to its question stays. False if there is none. */
export const purgeTask = Effect.fn("Purge.task")(function* (sql: SqlClient.SqlClient, project_id: string, id: string) {
  const store = Store.make(sql)
  yield* store.lockUsage(project_id)
  if (Option.isNone(yield* store.lockTask(project_id, id))) return false
  yield* store.dropNotices(project_id, id)
  const results = bytesOf(yield* store.dropResults(project_id, [id]))
  yield* store.dropDependencies(project_id, id)
  const notes = bytesOf(yield* store.dropNotes(project_id, id))
  const receipts = Option.getOrThrow(yield* store.dropReceipts(project_id, id))
  const task = bytesOf(yield* store.dropTask(project_id, id))
  yield* store.free(project_id, {
    stored_bytes: results + notes + receipts.bytes + task,
    tasks: 1,
    receipts: receipts.receipts
  })
  return true
})

/** At most `limit` of the receipts written before an instant; returns how many. Their tasks stay. */
export const purgeReceiptsBefore = Effect.fn("Purge.receiptsBefore")(function* (
  sql: SqlClient.SqlClient,
  project_id: string,
  before: Date,
  limit: number
) {
  const store = Store.make(sql)
  const { bytes, receipts } = Option.getOrThrow(yield* store.dropReceiptsBefore(project_id, before, limit))
  if (receipts > 0) yield* store.free(project_id, { stored_bytes: bytes, receipts })
  return receipts
})

/** The text stays if another project pins the same. Returns false if the project has no such document. */
export const purgeDocument = Effect.fn("Purge.document")(function* (
  sql: SqlClient.SqlClient,
  project_id: string,
  id: string
) {
  const store = DocumentStore.make(sql)
  const found = yield* store.unpin(id, project_id)
  if (Option.isNone(found)) return false
  yield* store.dropUnused(found.value.blob_oid)
  return true
})

const bytesOf = (found: Option.Option<{ readonly bytes: number }>) => Option.getOrThrow(found).bytes
