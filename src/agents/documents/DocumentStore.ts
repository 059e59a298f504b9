/** Statements for pinned documents and their blobs. A blob is stored once, however often it is pinned. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { PinnedDocument } from "./Shapes.ts"
import type { Page } from "../../platform/sql/Page.ts"

const Stored = Schema.Struct({
  commit: Schema.String,
  path: Schema.String,
  blob_oid: Schema.String,
  sha256: Schema.Uint8Array,
  bytes: Schema.Uint8Array
})

export interface NewBlob {
  readonly blob_oid: string
  readonly sha256: Uint8Array
  readonly line_count: number
  readonly bytes: Uint8Array
}

export interface NewPin {
  readonly project_id: string
  readonly document_id: string
  readonly repository: string
  readonly commit: string
  readonly path: string
  readonly mode: string
  readonly title: string
  readonly bootstrap: boolean
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Stores the blob. Returns no row if other bytes are stored under the same id. */
  const keepBlob = ({ blob_oid, bytes, line_count, sha256 }: NewBlob) =>
    rows(Schema.Struct({ blob_oid: Schema.String }))(sql`
      insert into document_blob as b (blob_oid, sha256, size_bytes, line_count, bytes)
      values (${blob_oid}, ${sha256}, ${bytes.length}, ${line_count}, ${bytes})
          on conflict (blob_oid) do update
         set bytes = excluded.bytes
       where b.sha256 = excluded.sha256
      returning blob_oid`)

  /**
   * Pins the blob, or updates title and `bootstrap` of an existing pin of the same file and commit, which keeps its id.
   * Returns no row if nothing changed.
   */
  const pin = (pin: NewPin, blob_oid: string, now: Date) =>
    firstRow(Schema.Struct({ document_id: Schema.String }))(sql`
      insert into pinned_document (
        project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
      values (${pin.project_id}::uuid, ${pin.document_id}::uuid, ${pin.repository}, ${pin.commit}, ${pin.path},
              ${pin.mode}, ${blob_oid}, ${pin.title}, ${pin.bootstrap}, ${now})
          on conflict (project_id, repository, commit, path) do update
         set title = excluded.title,
             bootstrap = excluded.bootstrap
       where (pinned_document.title, pinned_document.bootstrap)
             is distinct from (excluded.title, excluded.bootstrap)
      returning document_id`)

  const findPin = ({ commit, path, project_id, repository }: NewPin) =>
    firstRow(Schema.Struct({ document_id: Schema.String }))(sql`
      select document_id
        from pinned_document
       where project_id = ${project_id}::uuid
         and repository = ${repository}
         and commit = ${commit}
         and path = ${path}`)

  const documents = sql`
      select d.document_id, d.title, d.repository, d.commit, d.path, d.blob_oid, encode(b.sha256, 'hex') as sha256,
             b.size_bytes, b.line_count, d.bootstrap, d.pinned_at
        from pinned_document d
        join document_blob b using (blob_oid)`

  /** The first ones for an agent: bootstrap documents, then in the order of pinning. */
  const first = (project_id: string, limit: number) =>
    rows(PinnedDocument)(sql`
      ${documents}
       where d.project_id = ${project_id}::uuid
       order by d.bootstrap desc, d.pinned_at, d.document_id
       limit ${limit}`)

  const list = (project_id: string, { after, limit }: Page) =>
    rows(PinnedDocument)(sql`
      ${documents}
       where d.project_id = ${project_id}::uuid
         and ${after === undefined ? sql`true` : sql`d.document_id > ${after}::uuid`}
       order by d.document_id
       limit ${limit}`)

  const find = (project_id: string, document_id: string) =>
    firstRow(Stored)(sql`
      select d.commit, d.path, d.blob_oid, b.sha256, b.bytes
        from pinned_document d
        join document_blob b using (blob_oid)
       where d.project_id = ${project_id}::uuid
         and d.document_id = ${document_id}::uuid`)

  /** Of any project, or of one. */
  const unpin = (document_id: string, project_id?: string) =>
    firstRow(Schema.Struct({ project_id: Schema.String, blob_oid: Schema.String }))(sql`
      delete from pinned_document
       where document_id = ${document_id}::uuid
         and ${project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`}
      returning project_id, blob_oid`)

  const dropUnused = (blob_oid: string) => sql`
    delete from document_blob b
     where b.blob_oid = ${blob_oid}
       and not exists (
         select 1
           from pinned_document d
          where d.blob_oid = b.blob_oid)`

  return { keepBlob, pin, findPin, first, list, find, unpin, dropUnused }
}
