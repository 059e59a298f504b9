/**
 * Saves the whole database to one file and restores it (decisions.md, Backup).
 *
 *     header    {"backup":"bridge-service","created_at":…,"migrations":[…],"tables":[{"name":…,"columns":[…]}]}
 *     rows      ["project","0198…",null,…]      one per line: the table, then each value as PostgreSQL casts it to text
 *     trailer   {"rows":17,"sha256":…}          over every byte before it
 *
 * Tables and columns come from the catalog, so a new migration needs no change here. PostgreSQL parses its own text
 * format back exactly, whatever the type. Tables are in the order of their names; foreign keys are checked at the end.
 */
import { Context, Data, Effect, Layer, Schema, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { createHash } from "node:crypto"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Catalog from "./BackupCatalog.ts"
import { DatabaseClock } from "./Clock.ts"
import { Database } from "./Database.ts"
import { longPersistence } from "./Persistence.ts"

export class BackupDamaged extends Data.TaggedError("BackupDamaged") {
  override readonly message = "The file is not a complete backup: it was truncated or altered. Nothing was restored."
}
export class BackupOfAnotherVersion extends Data.TaggedError("BackupOfAnotherVersion") {
  override readonly message =
    "The backup has another schema version: restore it with the release that made it, then upgrade. Nothing was restored."
}
export class DatabaseNotEmpty extends Data.TaggedError("DatabaseNotEmpty") {
  override readonly message = "The database is not empty: restore into an empty one. Nothing was restored."
}

interface Summary {
  readonly created_at: Date
  readonly tables: number
  readonly rows: number
}
type Unavailable = SharedRefusal<"bridge_persistence_error">
type Refused = BackupDamaged | BackupOfAnotherVersion | DatabaseNotEmpty

export class Backup extends Context.Service<
  Backup,
  {
    /** Passes the file to `write` piece by piece, read from one snapshot. */
    readonly save: <E>(write: (text: string) => Effect.Effect<void, E>) => Effect.Effect<Summary, E | Unavailable>
    /** Reads the file twice: verifies it, then writes its rows. All or nothing. */
    readonly restore: <E>(file: Stream.Stream<Uint8Array, E>) => Effect.Effect<Summary, E | Unavailable | Refused>
  }
>()("service/database/Backup") {
  static readonly layer = Layer.effect(
    Backup,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock

      const save = Effect.fn("Backup.save")(function* <E>(write: (text: string) => Effect.Effect<void, E>) {
        const created_at = yield* clock.now
        return yield* dedicated(snapshot(created_at, write)).pipe(longPersistence)
      })

      const restore = Effect.fn("Backup.restore")(function* <E>(file: Stream.Stream<Uint8Array, E>) {
        const { header, rows } = yield* verify(file)
        yield* dedicated(load(header, file)).pipe(longPersistence)
        return { created_at: header.created_at, tables: header.tables.length, rows }
      })

      return { save, restore }
    })
  )
}

const Header = Schema.fromJsonString(
  Schema.Struct({
    backup: Schema.Literal("bridge-service"),
    created_at: Schema.DateFromString,
    migrations: Schema.Array(Catalog.Migration),
    tables: Schema.Array(Schema.Struct({ name: Schema.String, columns: Schema.Array(Schema.String) }))
  })
)

const snapshot = Effect.fnUntraced(function* <E>(created_at: Date, write: (text: string) => Effect.Effect<void, E>) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    yield* sql`set transaction isolation level repeatable read, read only`
    yield* Catalog.plainText(sql)
    const tables = yield* Catalog.tables(sql)
    const digest = createHash("sha256")
    let rows = 0
    const writeLines = (lines: ReadonlyArray<string>) => {
      const text = lines.map((line) => `${line}\n`).join("")
      digest.update(text)
      return write(text)
    }
    yield* writeLines([
      Schema.encodeSync(Header)({
        backup: "bridge-service",
        created_at,
        migrations: yield* Catalog.migrations(sql),
        tables: tables.map(({ columns, name }) => ({ name, columns }))
      })
    ])
    for (const table of tables) {
      yield* Stream.runForEachArray(Catalog.lines(sql, table), (found) => {
        rows += found.length
        return writeLines(found.map(({ line }) => line))
      })
    }
    yield* write(trailer(rows, digest.digest("hex")))
    return { created_at, tables: tables.length, rows }
  })
  return yield* sql.withTransaction(work)
})

const trailer = (rows: number, sha256: string) => `${JSON.stringify({ rows, sha256 })}\n`

const verify = Effect.fnUntraced(function* <E>(file: Stream.Stream<Uint8Array, E>) {
  const digest = createHash("sha256")
  let first: string | undefined
  let last = ""
  let count = 0
  yield* Stream.runForEach(lines(file), (line) =>
    Effect.sync(() => {
      digest.update(last)
      first ??= line
      last = line
      count++
    })
  )
  const rows = count - 2
  if (first === undefined || last !== trailer(rows, digest.digest("hex"))) return yield* new BackupDamaged()
  const header = yield* Schema.decodeEffect(Header)(first).pipe(Effect.mapError(() => new BackupDamaged()))
  return { header, rows }
})

const load = Effect.fnUntraced(function* <E>(header: typeof Header.Type, file: Stream.Stream<Uint8Array, E>) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    yield* Catalog.plainText(sql)
    const tables = yield* Catalog.tables(sql)
    const same =
      JSON.stringify(yield* Catalog.migrations(sql)) === JSON.stringify(header.migrations) &&
      JSON.stringify(tables.map(({ columns, name }) => ({ name, columns }))) === JSON.stringify(header.tables)
    if (!same) return yield* new BackupOfAnotherVersion()
    if (!(yield* Catalog.lockIfEmpty(sql, tables))) return yield* new DatabaseNotEmpty()

    const byName = new Map(tables.map((table) => [table.name, table]))
    let batch: Array<string> = []
    let size = 0
    let current = ""
    const insert = Effect.suspend((): Effect.Effect<void, SqlError.SqlError> => {
      const table = byName.get(current)
      const rows = `[${batch.join(",")}]`
      batch = []
      size = 0
      return table === undefined ? Effect.void : Effect.asVoid(Catalog.insert(sql, table, rows))
    })
    const add = Effect.fnUntraced(function* (line: string) {
      const name = tableOf(line)
      if (name !== current || size > batchSize) yield* insert
      current = name
      batch.push(line)
      size += line.length
    })
    const rows = lines(file).pipe(Stream.filter((line) => line.startsWith("[")))
    yield* Catalog.deferringForeignKeys(sql, Effect.andThen(Stream.runForEach(rows, add), insert))
    yield* Catalog.advanceSequences(sql, tables)
  })
  yield* sql.withTransaction(work)
})

/** In characters. A single larger row is one batch. */
const batchSize = 1_000_000

const tableOf = (line: string): string => JSON.parse(`${line.slice(0, line.indexOf('"', 2) + 1)}]`)[0]

/** Lines with their line feed. The last line of a truncated file has none. */
const lines = <E>(file: Stream.Stream<Uint8Array, E>) =>
  file.pipe(
    Stream.decodeText,
    Stream.mapAccum(
      () => "",
      (rest, text) => {
        const parts = (rest + text).split("\n")
        return [parts.pop()!, parts.map((line) => `${line}\n`)] as const
      },
      { onHalt: (rest) => (rest === "" ? [] : [rest]) }
    )
  )
