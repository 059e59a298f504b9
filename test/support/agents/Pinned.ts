/** A pinned document without a repository. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHash, randomUUID } from "node:crypto"

export const pinned = Effect.fnUntraced(function* (project_id: string, title: string, text: string) {
  const sql = yield* SqlClient.SqlClient
  const bytes = Buffer.from(text)
  const sha256 = createHash("sha256").update(bytes).digest()
  const oid = createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
  const document_id = randomUUID()
  yield* sql`
    insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
    values (${oid}, ${sha256}, ${bytes.length}, ${text.split("\n").length}, ${bytes})`
  yield* sql`
    insert into pinned_document (
      project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
    values (${project_id}::uuid, ${document_id}::uuid, '/r', ${oid}, 'docs/guide.md', '100644', ${oid}, ${title}, false,
            now())`
  return document_id
})
