/** Statements that read every row of the database as JSON, whatever its table. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../sql/Rows.ts"

const Table = Schema.Struct({
  name: Schema.String,
  /** The columns of the primary key, with their types, in order. */
  key: Schema.Array(Schema.Struct({ column: Schema.String, type: Schema.String })),
  /** Columns of the type bytea: hashes, salts and sealed text. */
  binary: Schema.Array(Schema.String),
  of_project: Schema.Boolean
})
export type Table = typeof Table.Type

const Row = Schema.Struct({
  key: Schema.Array(Schema.String),
  project_id: Schema.NullOr(Schema.String),
  value: Schema.Record(Schema.String, Schema.Unknown)
})
export type Row = typeof Row.Type

/**
 * Tables whose text stands in another one as well: postings are words of entries, blobs are read with the documents that are
 * pinned to them, and links and heads are hashes.
 */
const derived = ["memory_posting", "document_blob", "audit_link", "audit_chain"]

export const make = (sql: SqlClient.SqlClient) => {
  /** Every table with a key; the partitions of a table are read through it. */
  const tables = rows(Table)(sql`
    select c.relname as name,
           exists (select
                     from pg_attribute p
                    where p.attrelid = c.oid and p.attname = 'project_id' and not p.attisdropped) as of_project,
           (select jsonb_agg(jsonb_build_object('column', a.attname, 'type', format_type(a.atttypid, null)) order by k.place)
              from unnest(i.indkey::int2[]) with ordinality as k (number, place)
              join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number) as key,
           array(select b.attname::text
                   from pg_attribute b
                  where b.attrelid = c.oid and b.atttypid = 'bytea'::regtype and not b.attisdropped) as binary
      from pg_class c
      join pg_index i on i.indrelid = c.oid and i.indisprimary
     where c.relnamespace = current_schema()::regnamespace
       and c.relkind in ('r', 'p')
       and not c.relispartition
       and not c.relname = any(${derived}::text[])
     order by c.relname`)

  /** The rows after the key `after`, of one project or of all, without their binary columns. */
  const page = (
    { binary, key, name, of_project }: Table,
    project_id: string | undefined,
    after: ReadonlyArray<string>,
    limit: number
  ) => {
    const columns = sql.literal(key.map(({ column }) => `t.${column}`).join(", "))
    const bounds = sql.csv(key.map(({ type }, n) => sql`${after[n]!}::text::${sql.literal(type)}`))
    const content = sql`
      || (select jsonb_build_object('content', encode(b.bytes, 'escape'))
            from document_blob b
           where b.blob_oid = t.blob_oid)`
    return rows(Row)(sql`
      select array[${sql.literal(key.map(({ column }) => `t.${column}::text`).join(", "))}] as key,
             ${of_project ? sql`t.project_id::text` : sql`null::text`} as project_id,
             (to_jsonb(t) - ${binary}::text[]) ${name === "pinned_document" ? content : sql``} as value
        from ${sql(name)} t
       where ${after.length === 0 ? sql`true` : sql`(${columns}) > (${bounds})`}
         and ${project_id === undefined ? sql`true` : sql`t.project_id = ${project_id}::uuid`}
       order by ${columns}
       limit ${limit}`)
  }

  /** How many rows `page` gives. */
  const amount = ({ name }: Table, project_id: string | undefined) =>
    rows(Schema.Struct({ rows: Schema.Int }))(sql`
      select count(*)::int as rows
        from ${sql(name)} t
       where ${project_id === undefined ? sql`true` : sql`t.project_id = ${project_id}::uuid`}`)

  return { tables, page, amount }
}
