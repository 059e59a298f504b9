/**
 * Saves the whole database to one file and restores it (decisions.md, Backup).
 *
 *     header    {"backup":"bridge-service","key":…,"created_at":…,"migrations":[…],"tables":[{"name":…,"columns":[…]}]}
 *     rows      ["project","0198…",null,…]      one per line: the table, then each value as PostgreSQL casts it to text
 *     trailer   {"rows":17,"sha256":…,"hmac_sha256":…}          both over every byte before it
 *
 * The key of the HMAC is derived from SERVICE_BACKUP_KEY; `key` in the header is its id. Backups of 0.1.0 have
 * neither `key` nor HMAC.
 *
 * The postings of the search are left out: the service makes them again from the entries after a restore.
 *
 * Tables and columns come from the catalog, so a new migration needs no change here. PostgreSQL parses its own text
 * format back exactly, whatever the type. Tables are in the order of their names; foreign keys are checked at the end.
 */
import { Context, Data, Duration, Effect, Layer, Schema, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { createHash } from "node:crypto"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { type Authenticator, authenticator } from "../crypto/Derivation.ts"
import { ConfigurationError, Settings } from "../settings/Settings.ts"
import * as Catalog from "./BackupCatalog.ts"
import { lines } from "./BackupLines.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database, migrateSoon, unfinishedRestore } from "../database/Database.ts"
import { migrate, shipped } from "../database/Migrations.ts"
import { longPersistence } from "../database/Persistence.ts"
import { done, expect } from "../metrics/Progress.ts"

export class BackupDamaged extends Data.TaggedError("BackupDamaged") {
  override readonly message = "The file is not a complete backup: it was truncated or altered. Nothing was restored."
}
export class BackupUnsigned extends Data.TaggedError("BackupUnsigned") {
  override readonly message =
    "Nothing proves who wrote this backup, because it has no signature: if it comes from 0.1.0 and nobody else could change it, add --accept-unsigned. Nothing was restored."
}
export class BackupOfAnotherKey extends Data.TaggedError("BackupOfAnotherKey") {
  override readonly message =
    "The backup was signed with another SERVICE_BACKUP_KEY: set the one of the service that made it. If that is lost, and nobody else could change the file, add --accept-unsigned. Nothing was restored."
}
export class BackupOfAnotherVersion extends Data.TaggedError("BackupOfAnotherVersion")<{ readonly message: string }> {}
export class DatabaseNotEmpty extends Data.TaggedError("DatabaseNotEmpty") {
  override readonly message = "The database is not empty: restore into an empty one. Nothing was restored."
}
/** The message names the limit. */
export class BackupTooSlow extends Data.TaggedError("BackupTooSlow")<{ readonly message: string }> {}
/** The file is whole, but no database was made of it in time. */
export class TrialTooSlow extends Data.TaggedError("TrialTooSlow")<{
  readonly created_at: Date
  readonly minutes: number
}> {}

const newer = new BackupOfAnotherVersion({
  message:
    "The backup has migrations that this release does not have: restore it with the release that made it. Nothing was restored."
})
const otherTables = new BackupOfAnotherVersion({
  message:
    "The database has other tables than the backup: restore into a database without tables. Nothing was restored."
})

interface Summary {
  readonly created_at: Date
  readonly tables: number
  readonly rows: number
}
type Unavailable = SharedRefusal<"bridge_persistence_error">
type Unverified = BackupDamaged | BackupUnsigned | BackupOfAnotherKey | ConfigurationError
type Refused = Unverified | BackupOfAnotherVersion | DatabaseNotEmpty
type Migrating = Effect.Error<ReturnType<typeof migrateSoon>>

export class Backup extends Context.Service<
  Backup,
  {
    /** The id of SERVICE_BACKUP_KEY, as headers name it; undefined without one. */
    readonly keyId: string | undefined
    /** Passes the file to `write` piece by piece, read from one snapshot. Its time grows with the database. */
    readonly save: <E>(
      write: (text: string) => Effect.Effect<void, E>
    ) => Effect.Effect<Summary, E | Unavailable | ConfigurationError | BackupTooSlow>
    /** Reads a file whole and verifies it, as a restore does before it writes. */
    readonly verify: <E>(file: Stream.Stream<Uint8Array, E>) => Effect.Effect<Summary, E | Unverified>
    /**
     * Restores a file of this service into an empty database of the same server, to try it.
     * Nothing serves from that database, so nothing is erased there. Its time grows with the file.
     */
    readonly restoreBeside: <E>(
      name: string,
      file: Stream.Stream<Uint8Array, E>
    ) => Effect.Effect<Summary, E | Unavailable | Refused | Migrating | TrialTooSlow>
    /**
     * Reads the file twice: verifies it, then writes its rows, all or nothing. The tables are those of the backup's version
     * while its rows are written; then the later migrations run, and `finish`. Until that has succeeded neither the service
     * nor a command uses the database. With `acceptUnsigned` a signature may be missing, or be of a key that is not here;
     * one of the service's own key is verified nevertheless.
     *
     * It takes the time that it needs: an operator watches it.
     */
    readonly restore: <E, A, E2>(
      file: Stream.Stream<Uint8Array, E>,
      options: { readonly acceptUnsigned: boolean },
      finish: Effect.Effect<A, E2, SqlClient.SqlClient>
    ) => Effect.Effect<
      Summary & { readonly finished: A },
      E | Exclude<E2, SqlError.SqlError> | Unavailable | Refused | Migrating
    >
  }
>()("service/backups/Backup") {
  static readonly layer = Layer.effect(
    Backup,
    Effect.gen(function* () {
      const database = yield* Database
      const { backup } = yield* Settings
      const clock = yield* DatabaseClock
      const key = backup.key === undefined ? undefined : authenticator(backup.key, "backup/v1/file")

      const save = Effect.fn("Backup.save")(function* <E>(write: (text: string) => Effect.Effect<void, E>) {
        if (key === undefined) return yield* noKey
        const created_at = yield* clock.now
        const minutes = minutesFor(yield* longPersistence(database.dedicated(SqlClient.SqlClient.use(Catalog.size))))
        return yield* unlimited(database, snapshot(created_at, key, write)).pipe(
          Effect.timeoutOrElse({
            duration: Duration.minutes(minutes),
            orElse: () =>
              new BackupTooSlow({
                message: `The backup was not finished within ${minutes} minutes: its disk or the database is too slow.`
              })
          })
        )
      })

      const verify = Effect.fn("Backup.verify")(function* <E>(file: Stream.Stream<Uint8Array, E>) {
        const { header, rows } = yield* read(file, sealWith(key, { acceptUnsigned: false }), () => Effect.void)
        return { created_at: header.created_at, tables: header.tables.length, rows }
      })

      /** Verifies a file, and returns the effect that then writes its rows, and what it needs to be judged by. */
      const prepare = Effect.fnUntraced(function* <E, A, E2>(
        database: Database["Service"],
        file: Stream.Stream<Uint8Array, E>,
        options: { readonly acceptUnsigned: boolean },
        finish: Effect.Effect<A, E2, SqlClient.SqlClient>
      ) {
        const sealOf = sealWith(key, options)
        const { bytes, header, rows } = yield* read(file, sealOf, () => Effect.void)
        const files = shipped.slice(0, header.migrations.length)
        if (!header.migrations.every(({ checksum }, index) => checksum === files[index]?.checksum)) return yield* newer
        const { created_at, tables } = header
        const fill = Effect.gen(function* () {
          // A database that is in use must not even be migrated.
          yield* unlimited(database, refuseUsed)
          yield* Effect.provideService(migrateSoon(files), Database, database)
          yield* unlimited(database, load(header, file, sealOf))
          yield* unlimited(database, migrate())
          const finished = yield* unlimited(database, finishing(finish))
          return { created_at, tables: tables.length, rows, finished }
        })
        return { bytes, created_at, fill }
      })

      const restore = Effect.fn("Backup.restore")(
        <E, A, E2>(
          file: Stream.Stream<Uint8Array, E>,
          options: { readonly acceptUnsigned: boolean },
          finish: Effect.Effect<A, E2, SqlClient.SqlClient>
        ) => Effect.flatMap(prepare(database, file, options, finish), ({ fill }) => fill)
      )
      const restoreBeside = Effect.fn("Backup.restoreBeside")(function* <E>(
        name: string,
        file: Stream.Stream<Uint8Array, E>
      ) {
        const signed = { acceptUnsigned: false }
        const { bytes, created_at, fill } = yield* prepare(database.beside(name), file, signed, Effect.void)
        const minutes = minutesFor(bytes)
        return yield* Effect.timeoutOrElse(fill, {
          duration: Duration.minutes(minutes),
          orElse: () => new TrialTooSlow({ created_at, minutes })
        })
      })

      return { keyId: key?.id, save, verify, restore, restoreBeside }
    })
  )
}

/** How long a backup of a database of so many bytes may take, or the trial of such a file. */
const minutesFor = (bytes: number) => 10 + Math.floor(bytes / 100_000_000)

/** On a connection that no limit ends: the caller sets one, or an operator watches. */
const unlimited = <A, E>(database: Database["Service"], work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  longPersistence(database.dedicated(work, Duration.infinity))

const noKey = new ConfigurationError({
  message: "SERVICE_BACKUP_KEY is not set: 32 bytes or more, such as the output of openssl rand -base64 32."
})

const Header = Schema.fromJsonString(
  Schema.Struct({
    backup: Schema.Literal("bridge-service"),
    key: Schema.optionalKey(Schema.String),
    created_at: Schema.DateFromString,
    migrations: Schema.Array(Catalog.Migration),
    tables: Schema.Array(Schema.Struct({ name: Schema.String, columns: Schema.Array(Schema.String) }))
  })
)
type Header = typeof Header.Type

/** What the trailer says about the bytes before it. */
interface Seal {
  readonly add: (text: string) => void
  readonly trailer: (rows: number) => string
  readonly fits: (trailer: string, rows: number) => boolean
}

const seal = (key: Authenticator | undefined): Seal => {
  const digest = createHash("sha256")
  const code = key?.start()
  const trailer = (rows: number) => {
    const sums = { rows, sha256: digest.digest("hex"), ...(code && { hmac_sha256: code.digest("hex") }) }
    return `${JSON.stringify(sums)}\n`
  }
  return {
    add: (text) => {
      digest.update(text)
      code?.update(text)
    },
    trailer,
    fits: (found, rows) => found === trailer(rows)
  }
}

/** For a signature whose key is not here: what can be checked without it. */
const withoutSignature = (): Seal => {
  const plain = seal(undefined)
  const hmac = /,"hmac_sha256":"[0-9a-f]{64}"(?=\}\n$)/
  return { ...plain, fits: (found, rows) => plain.fits(found.replace(hmac, ""), rows) }
}

const sealWith =
  (key: Authenticator | undefined, { acceptUnsigned }: { readonly acceptUnsigned: boolean }) =>
  (header: Header): Effect.Effect<Seal, Unverified> => {
    if (header.key !== undefined && header.key === key?.id) return Effect.succeed(seal(key))
    if (acceptUnsigned) return Effect.succeed(withoutSignature())
    if (header.key === undefined) return Effect.fail(new BackupUnsigned())
    return Effect.fail(key === undefined ? noKey : new BackupOfAnotherKey())
  }

const snapshot = Effect.fnUntraced(function* <E>(
  created_at: Date,
  key: Authenticator,
  write: (text: string) => Effect.Effect<void, E>
) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    yield* sql`set transaction isolation level repeatable read, read only`
    yield* Catalog.plainText(sql)
    const tables = (yield* Catalog.tables(sql)).filter(Catalog.isKept)
    const { add, trailer } = seal(key)
    let rows = 0
    const writeLines = (lines: ReadonlyArray<string>) => {
      const text = lines.map((line) => `${line}\n`).join("")
      add(text)
      return write(text)
    }
    yield* writeLines([
      Schema.encodeSync(Header)({
        backup: "bridge-service",
        key: key.id,
        created_at,
        migrations: yield* Catalog.migrations(sql),
        tables: tables.map(({ columns, name }) => ({ name, columns }))
      })
    ])
    yield* expect(Catalog.amount(sql))
    for (const table of tables) {
      yield* Stream.runForEachArray(Catalog.lines(sql, table), (found) => {
        rows += found.length
        return Effect.andThen(writeLines(found.map(({ line }) => line)), done(found.length))
      })
    }
    yield* write(trailer(rows))
    return { created_at, tables: tables.length, rows }
  })
  return yield* sql.withTransaction(work)
})

/** Passes the lines of rows to `each`. Fails unless the trailer fits what was read. */
const read = Effect.fnUntraced(function* <E, E2>(
  file: Stream.Stream<Uint8Array, E>,
  sealOf: (header: Header) => Effect.Effect<Seal, Unverified>,
  each: (line: string) => Effect.Effect<void, E2>
) {
  let opened: { readonly header: Header; readonly seal: Seal } | undefined
  /** The last line read: a row if another line follows, else the trailer. */
  let held: string | undefined
  let rows = 0
  let bytes = 0
  const take = Effect.fnUntraced(function* (line: string | undefined) {
    if (line === undefined) return yield* new BackupDamaged()
    if (opened === undefined) {
      const header = yield* Schema.decodeEffect(Header)(line).pipe(Effect.mapError(() => new BackupDamaged()))
      opened = { header, seal: yield* sealOf(header) }
      return opened.seal.add(line)
    }
    if (held !== undefined) {
      opened.seal.add(held)
      rows++
      yield* each(held)
    }
    held = line
  })
  const seen = Stream.tap(file, ({ length }) => {
    bytes += length
    return done(length)
  })
  yield* Stream.runForEach(lines(seen), take)
  if (opened === undefined || held === undefined || !opened.seal.fits(held, rows)) return yield* new BackupDamaged()
  return { header: opened.header, rows, bytes }
})

/** Verifies the file once more: it may have been replaced since it was verified. */
const refuseUsed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  if (!(yield* Catalog.isEmpty(sql, yield* Catalog.tables(sql)))) return yield* new DatabaseNotEmpty()
})

const load = Effect.fnUntraced(function* <E>(
  header: Header,
  file: Stream.Stream<Uint8Array, E>,
  sealOf: (header: Header) => Effect.Effect<Seal, Unverified>
) {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    yield* Catalog.plainText(sql)
    const tables = yield* Catalog.tables(sql)
    const inFile = new Set(header.tables.map(({ name }) => name))
    // A backup of an earlier release has the postings.
    const kept = tables.filter((table) => Catalog.isKept(table) || inFile.has(table.name))
    const same =
      JSON.stringify(yield* Catalog.migrations(sql)) === JSON.stringify(header.migrations) &&
      JSON.stringify(kept.map(({ columns, name }) => ({ name, columns }))) === JSON.stringify(header.tables)
    if (!same) return yield* otherTables
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
    yield* Catalog.deferringForeignKeys(sql, Effect.andThen(read(file, sealOf, add), insert))
    if (kept.length < tables.length) yield* Catalog.indexLater(sql, header.created_at)
    yield* Catalog.advanceSequences(sql, tables)
    yield* sql`create table ${sql(unfinishedRestore)} ()`
  })
  yield* sql.withTransaction(work)
})

/** The table goes last: a database of which `finish` has done only a part is never used. */
const finishing = Effect.fnUntraced(function* <A, E>(finish: Effect.Effect<A, E, SqlClient.SqlClient>) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.tap(finish, sql`drop table ${sql(unfinishedRestore)}`)
})

/** In characters. A single larger row is one batch. */
const batchSize = 1_000_000

const tableOf = (line: string): string => JSON.parse(`${line.slice(0, line.indexOf('"', 2) + 1)}]`)[0]
