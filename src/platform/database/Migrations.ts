/**
 * Migrates the schema to this release: runs the files migrations/NNNN_what.sql in order, forward only.
 *
 * Each file runs once, in its own transaction that also records its name and SHA-256. A lock lets one process migrate at
 * a time. If an applied file was edited, the process does not start. A schema newer than this release is left alone:
 * old and new processes run side by side during an upgrade. A file that locks tables in another order than a request of
 * the old release may be ended by PostgreSQL as the victim of a deadlock; it runs again.
 *
 * A file that takes away what an earlier release uses also defines the function `schema_requires()`: the number of the
 * migration that a release must have to work on the schema. An earlier release then refuses to start.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { migrations } from "../settings/Texts.ts"
import { rows } from "../sql/Rows.ts"
import { retryingConflicts } from "./Persistence.ts"

/** An applied migration differs from its file, or the schema is too new. The process ends with exit code 78. */
export class MigrationError extends Data.TaggedError("MigrationError")<{ readonly message: string }> {}

export interface Migration {
  readonly id: number
  readonly name: string
  readonly checksum: string
  readonly statements: ReadonlyArray<string>
}

/** The migrations of this release, in ascending order. */
export const shipped: ReadonlyArray<Migration> = Object.entries(migrations)
  .filter(([name]) => /^\d{4}_\w+\.sql$/.test(name))
  .toSorted(([one], [other]) => (one < other ? -1 : 1))
  .map(([name, text]) => ({
    id: Number(name.slice(0, 4)),
    name,
    checksum: createHash("sha256").update(text).digest("hex"),
    statements: statementsOf(text)
  }))

/** Applies the pending migrations and returns the names of their files. */
export const migrate = Effect.fn("Migrations.migrate")(function* (files: ReadonlyArray<Migration> = shipped) {
  const sql = yield* SqlClient.SqlClient
  const ran: Array<string> = []
  // An account that may not change the schema serves as well, once another one has migrated.
  const { changed, newer, pending, works } = yield* review(files)
  if (!works) return yield* new MigrationError({ message: tooNew(newer) })
  if (changed.length === 0 && pending.length === 0) return ran
  for (const file of files) {
    if (yield* sql.withTransaction(apply(sql, file)).pipe(retryingConflicts(5))) ran.push(file.name)
  }
  return ran
})

/** For a schema on which this release does not work; `newer` are the migrations that only later releases have. */
export const tooNew = (newer: ReadonlyArray<string>) =>
  `The schema belongs to a newer release, and this release cannot use it: it has migrations/${newer.at(-1)}. Start the release that has this file, or restore a backup that this release made.`

/**
 * Returns the names of pending files, of files that were edited after they ran, and of those that ran and that only a newer
 * release has; and whether this release works on the schema. Changes nothing.
 */
export const review = Effect.fn("Migrations.review")(function* (files: ReadonlyArray<Migration> = shipped) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* rows(Schema.Struct({ begun: Schema.Boolean, requires: Schema.Boolean }))(
    sql`
      select to_regclass('schema_migration') is not null as begun,
             to_regprocedure('schema_requires()') is not null as requires`
  )
  const known = found?.begun === true ? yield* applied(sql) : new Map<number, Applied>()
  const last = files.at(-1)?.id ?? 0
  return {
    pending: files.filter(({ id }) => !known.has(id)).map(({ name }) => name),
    changed: files
      .filter(({ checksum, id }) => (known.get(id)?.checksum ?? checksum) !== checksum)
      .map(({ name }) => name),
    newer: [...known.values()].filter(({ migration_id }) => migration_id > last).map(({ name }) => name),
    works: found?.requires !== true || (yield* required(sql)) <= last
  }
})

const required = (sql: SqlClient.SqlClient) =>
  Effect.map(
    rows(Schema.Struct({ migration_id: Schema.Int }))(sql`select schema_requires() as migration_id`),
    ([row]) => row!.migration_id
  )

const apply = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, file: Migration) {
  yield* sql`select pg_advisory_xact_lock(hashtext('bridge-service migrations'))`
  yield* sql`
    create table if not exists schema_migration (
      migration_id int primary key,
      name text not null,
      checksum text not null,
      applied_at timestamptz not null default clock_timestamp()
    )`
  const known = (yield* applied(sql)).get(file.id)?.checksum
  if (known === file.checksum) return false
  if (known !== undefined) {
    return yield* new MigrationError({
      message: `migrations/${file.name} was changed after it ran on this database; restore the file, and put the change into a new file.`
    })
  }
  for (const statement of file.statements) yield* sql.unsafe(statement).unprepared
  yield* sql`
    insert into schema_migration (migration_id, name, checksum)
    values (${file.id}, ${file.name}, ${file.checksum})`
  return true
})

const Applied = Schema.Struct({ migration_id: Schema.Int, name: Schema.String, checksum: Schema.String })
type Applied = typeof Applied.Type

const applied = (sql: SqlClient.SqlClient) =>
  rows(Applied)(sql`
    select migration_id, name, checksum
      from schema_migration
     order by migration_id`).pipe(Effect.map((found) => new Map(found.map((row) => [row.migration_id, row]))))

/** Splits at top-level semicolons; semicolons in quotes, dollar quotes and comments do not count. */
export function statementsOf(text: string): ReadonlyArray<string> {
  const token = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|(\$\w*\$)[\s\S]*?\1|;/g
  const ends = [...text.matchAll(token)].filter((match) => match[0] === ";").map((match) => match.index)
  return [...ends, text.length]
    .map((end, index) => text.slice(index === 0 ? 0 : ends[index - 1]! + 1, end).trim())
    .filter((statement) => statement.replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\//g, "").trim() !== "")
}
