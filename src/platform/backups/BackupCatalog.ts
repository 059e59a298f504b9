/** The statements of Backup.ts: the tables as the catalog describes them, and reading and writing the rows of any table. */
import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { rows } from "../sql/Rows.ts"

export const Migration = Schema.Struct({ migration_id: Schema.Int, name: Schema.String, checksum: Schema.String })

const Table = Schema.Struct({
  name: Schema.String,
  columns: Schema.Array(Schema.String),
  types: Schema.Array(Schema.String)
})
type Table = typeof Table.Type

/** A database or a role can change these settings. Backups are written and read in one format. */
export const plainText = (sql: SqlClient.SqlClient) => sql`
  select set_config('datestyle', 'ISO, YMD', true),
         set_config('intervalstyle', 'postgres', true),
         set_config('timezone', 'UTC', true),
         set_config('bytea_output', 'hex', true),
         set_config('extra_float_digits', '1', true),
         set_config('lock_timeout', '10s', true)`

export const migrations = (sql: SqlClient.SqlClient) =>
  rows(Migration)(sql`
    select migration_id, name, checksum
      from schema_migration
     order by migration_id`)

/** The postings of the search, which take up to twenty times as much as the text that they are made of. */
const derived = ["memory_posting"]

/** Whether a backup holds the table. What it lacks is computed again after a restore. */
export const isKept = ({ name }: Pick<Table, "name">) => !derived.includes(name)

/** Leaves out generated columns, because the database computes them again. */
export const tables = (sql: SqlClient.SqlClient) =>
  rows(Table)(sql`
    select c.relname::text as name,
           array_agg(a.attname::text order by a.attnum) as columns,
           array_agg(format_type(a.atttypid, a.atttypmod) order by a.attnum) as types
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = current_schema()::regnamespace
       and c.relkind in ('r', 'p')
       and not c.relispartition
       and c.relname <> 'schema_migration'
       and a.attnum > 0
       and not a.attisdropped
       and a.attgenerated = ''
     group by c.relname
     order by c.relname::text collate "C"`)

/** About how many rows a backup has: as the last ANALYZE counted them, or as the statistics do since. */
export const amount = (sql: SqlClient.SqlClient) =>
  Effect.map(
    rows(Schema.Struct({ rows: Schema.Number }))(sql`
      select coalesce(sum(greatest(c.reltuples, s.n_live_tup, 0)), 0)::float8 as rows
        from pg_class c
        left join pg_stat_user_tables s on s.relid = c.oid
       where c.relnamespace = current_schema()::regnamespace
         and c.relkind = 'r'
         and not c.relname = any (${derived}::text[])`),
    ([estimate]) => estimate!.rows
  )

/** Of the database on the disk, in bytes. */
export const size = (sql: SqlClient.SqlClient) =>
  Effect.map(
    rows(Schema.Struct({ size: Schema.Number }))(sql`select pg_database_size(current_database())::float8 as size`),
    ([found]) => found!.size
  )

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/** One line per row: array_to_json adds no line feed between elements, and escapes line feeds inside strings. */
export const lines = (sql: SqlClient.SqlClient, { columns, name }: Table) => {
  const values = [literal(name), ...columns.map(quoted)].map((value) => `${value}::text`)
  return sql.unsafe<{ readonly line: string }>(
    `select array_to_json(array[${values.join(", ")}])::text as line from ${quoted(name)}`
  ).stream
}

/** `lines`: a JSON array of lines of the table. */
export const insert = (sql: SqlClient.SqlClient, { columns, name, types }: Table, lines: string) => {
  const values = types.map((type, index) => `(line ->> ${index + 1})::${type}`)
  return sql.unsafe(
    `insert into ${quoted(name)} (${columns.map(quoted).join(", ")})
     overriding system value
     select ${values.join(", ")}
       from json_array_elements($1::text::json) as of_table (line)`,
    [lines]
  )
}

/** Whether the tables, if there are any, hold nothing but the instance id. Changes nothing. */
export const isEmpty = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, tables: ReadonlyArray<Table>) {
  const others = tables.filter(({ name }) => name !== "service_instance")
  if (others.length === 0) return true
  const [found] = yield* holdAnything(sql, others)
  return found?.anything === false
})

const holdAnything = (sql: SqlClient.SqlClient, tables: ReadonlyArray<Table>) => {
  const anything = tables.map(({ name }) => `exists (select from ${quoted(name)})`).join(" or ")
  return rows(Schema.Struct({ anything: Schema.Boolean }))(sql.unsafe(`select ${anything} as anything`))
}

/**
 * Locks all tables against other sessions and returns whether they are empty. The instance id, which the first migration
 * inserts, does not count: it is deleted, and the backup brings its own.
 */
export const lockIfEmpty = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, tables: ReadonlyArray<Table>) {
  yield* sql.unsafe(`lock table ${tables.map(({ name }) => quoted(name)).join(", ")} in access exclusive mode`)
  yield* sql`delete from service_instance`
  const [found] = yield* holdAnything(sql, tables)
  return found?.anything === false
})

/** Restored rows may reference later rows, also in cycles. All foreign keys are checked before this returns. */
export const deferringForeignKeys = Effect.fnUntraced(function* <A, E>(
  sql: SqlClient.SqlClient,
  work: Effect.Effect<A, E>
) {
  const strict = yield* rows(Schema.Struct({ alter: Schema.String }))(sql`
    select format('alter table %s alter constraint %I', conrelid::regclass, conname) as alter
      from pg_constraint
     where connamespace = current_schema()::regnamespace
       and contype = 'f'
       and conparentid = 0
       and not condeferrable`)
  const all = (to: string): Effect.Effect<void, SqlError.SqlError> =>
    Effect.forEach(strict, ({ alter }) => sql.unsafe(`${alter} ${to}`), { discard: true })
  yield* all("deferrable initially deferred")
  yield* sql`set constraints all deferred`
  yield* work
  yield* sql`set constraints all immediate`
  yield* all("not deferrable")
})

/** The sweep "index memory" makes the postings of every active entry, and counts them. */
export const indexLater = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, due_at: Date) {
  yield* sql`
    insert into memory_reindex (project_id, due_at)
    select distinct project_id, ${due_at}::timestamptz
      from memory_entry
        on conflict (project_id) do update
       set after = default,
           due_at = excluded.due_at`
  yield* sql`update project_usage set index_bytes = 0`
})

/** Serial and identity columns continue after the largest restored value. */
export const advanceSequences = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, tables: ReadonlyArray<Table>) {
  for (const { columns, name } of tables) {
    const owned = yield* rows(Schema.Struct({ column: Schema.String, sequence: Schema.String }))(sql`
      select c as column, pg_get_serial_sequence(${quoted(name)}, c) as sequence
        from unnest(${columns}::text[]) as c
       where pg_get_serial_sequence(${quoted(name)}, c) is not null`)
    for (const { column, sequence } of owned) {
      yield* sql.unsafe(
        `select setval(${literal(sequence)}, coalesce(max(${quoted(column)}), 0) + 1, false) from ${quoted(name)}`
      )
    }
  }
})
