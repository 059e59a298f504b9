/**
 * The connection to PostgreSQL: DATABASE_URL (for commands SERVICE_DATABASE_OWNER_URL, if set), or the embedded
 * PostgreSQL in SERVICE_DATA_DIR.
 *
 * Requests use a pool with timeouts. Migrations, backup, import and sweeps use dedicated connections without timeouts.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, type Duration, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Settings } from "../settings/Settings.ts"
import { rows } from "../sql/Rows.ts"
import { embeddedPostgres } from "./embedded/EmbeddedPostgres.ts"
import { type Migration, migrate, review, shipped } from "./Migrations.ts"
import { describe, longPersistence } from "./Persistence.ts"
import { limitTransactions } from "./Transactions.ts"

interface Connections {
  /** Runs an effect on a connection without timeouts, for at most ten minutes. */
  readonly dedicated: <A, E, R>(
    work: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | SqlError.SqlError, Exclude<R, SqlClient.SqlClient>>
  /** The folder of the embedded PostgreSQL; undefined with DATABASE_URL. */
  readonly embedded: string | undefined
  /** Another database of the same server. */
  readonly beside: (name: string) => Connections
}

export class Database extends Context.Service<Database, Connections>()("service/database/Database") {
  static readonly layer = Layer.unwrap(
    Effect.gen(function* () {
      const { database } = yield* Settings
      if (database.url !== undefined) return connected({ url: database.ownerUrl ?? database.url }, database)
      const { directory, host, password, port, username, ...running } = yield* embeddedPostgres(database.dataDir)
      const address = { host, password, port, username, database: running.database }
      return connected(address, { ...database, pooler: false }, directory)
    })
  )
}

/** Backs up the deadline of each operation (Persistence.ts): PostgreSQL cancels statements that nobody waits for. */
const timeouts = { statement_timeout: "5s", lock_timeout: "2s", idle_in_transaction_session_timeout: "10s" }

type Pooled = Pick<Settings["Service"]["database"], "pooler" | "poolSize">
type Address = Pick<PgClient.PgClientConfig, "url" | "host" | "port" | "username" | "password" | "database">

/**
 * The pool of a database, and its dedicated connections. A pooler in transaction mode shares sessions between clients, so
 * with a pooler statements are not prepared and timeouts are not set on the session.
 */
export const connected = (address: Address, { pooler, poolSize }: Pooled, embedded?: string) => {
  const each = { ...address, connectTimeout: "5 seconds", prepare: !pooler } as const
  const pool = bounded("5 seconds", {
    ...each,
    applicationName: "bridge-service",
    maxConnections: poolSize,
    connectionTTL: "10 minutes",
    startupParameters: pooler ? { timezone: "UTC" } : { ...timeouts, timezone: "UTC" }
  })
  return Layer.merge(pool, Layer.succeed(Database, Database.of(maintenance(each, embedded))))
}

const maintenance = (each: PgClient.PgPoolConfig, embedded: string | undefined): Connections => {
  const single = bounded("1 minute", {
    ...each,
    applicationName: "bridge-service maintenance",
    maxConnections: 1,
    startupParameters: { timezone: "UTC" }
  })
  const dedicated = <A, E, R>(work: Effect.Effect<A, E, R>) =>
    Layer.build(single).pipe(
      Effect.flatMap((connection) => Effect.provideContext(work, connection)),
      Effect.scoped,
      Effect.timeoutOrElse({
        duration: "10 minutes",
        orElse: () => Effect.die("Maintenance exceeded its limit of ten minutes.")
      })
    )
  return { dedicated, embedded, beside: (name) => maintenance({ ...each, ...named(each, name) }, embedded) }
}

const named = ({ url }: Address, database: string): Address => {
  if (url === undefined) return { database }
  const address = new URL(Redacted.value(url))
  address.pathname = encodeURIComponent(database)
  return { url: Redacted.make(address.href) }
}

const bounded = (limit: Duration.Input, config: PgClient.PgPoolConfig) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.map(PgClient.PgClient, (client) => limitTransactions(client, limit))
  ).pipe(Layer.provide(PgClient.layer(config)))

/** Migrates, retrying until the database is available. Then warns about settings that can lose acknowledged writes. */
export const migrateUntilDone = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const migrated = migrate().pipe(
    Effect.catchIf(
      isForbidden,
      Effect.fnUntraced(function* (error) {
        return (yield* isBegun) ? yield* new WaitingForOwner() : yield* Effect.fail(error)
      })
    )
  )
  yield* dedicated(Effect.all([suitable, whole, migrated, warnIfNotDurable])).pipe(
    explainLasting,
    Effect.tapErrorTag("WaitingForOwner", () =>
      Effect.logWarning("Waiting for service-admin migrate: this account may not change the schema")
    ),
    Effect.tapErrorTag("SqlError", (error) =>
      Effect.logWarning("Waiting for the database").pipe(Effect.annotateLogs(describe(error)))
    ),
    Effect.retry({
      while: (error) => error instanceof WaitingForOwner || SqlError.isSqlError(error),
      schedule: Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")])
    })
  )
})

/** An earlier release's schema belongs to another account, which migrates it while this one waits. */
class WaitingForOwner extends Data.TaggedError("WaitingForOwner")<{}> {}

const isBegun = Effect.map(review(), ({ pending }) => pending.length < shipped.length)

const isForbidden = (error: unknown) => SqlError.isSqlError(error) && error.reason._tag === "AuthorizationError"

/** The database did not answer within ten seconds. */
export class DatabaseUnreachable extends Data.TaggedError("DatabaseUnreachable")<{ readonly message: string }> {}

/** For commands: migrates and returns the names of the files that ran, or fails after ten seconds. */
export const migrateSoon = Effect.fnUntraced(function* (files?: ReadonlyArray<Migration>) {
  const { dedicated } = yield* Database
  yield* reachable
  return yield* dedicated(Effect.andThen(Effect.all([suitable, whole]), migrate(files))).pipe(
    explainLasting,
    longPersistence
  )
})

/** Login succeeds, but privileges are missing. */
export class DatabaseForbids extends Data.TaggedError("DatabaseForbids")<{ readonly message: string }> {}

/** The database does not exist, or cannot hold the service's text. */
export class DatabaseUnsuitable extends Data.TaggedError("DatabaseUnsuitable")<{ readonly message: string }> {}

const create = "create one with: createdb --template=template0 --encoding=UTF8 NAME"

/** A table that stands from the rows of a restore until its erasures are applied (Backup.ts). */
export const unfinishedRestore = "restore_unfinished"

export const whole = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* rows(Schema.Struct({ unfinished: Schema.Boolean }))(
    sql`select to_regclass(${unfinishedRestore}) is not null as unfinished`
  )
  if (found?.unfinished !== true) return
  return yield* new DatabaseUnsuitable({
    message:
      "A restore into this database did not finish, so what was erased may be there again: run restore-database again, into an empty database."
  })
})

/** In SQL_ASCII, PostgreSQL neither checks text nor counts its characters; other encodings lack most of them. */
export const suitable = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* rows(Schema.Struct({ encoding: Schema.String }))(
    sql`select current_setting('server_encoding') as encoding`
  )
  if (found?.encoding === "UTF8") return
  return yield* new DatabaseUnsuitable({
    message: `The database in DATABASE_URL has the encoding ${found?.encoding}, and must have UTF8: ${create}; pg_dump moves what the old one holds.`
  })
})

/** What no retry mends is a failure that the operator can fix, neither a defect nor a reason to wait. */
export const explainLasting = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.mapError(self, (error): E | DatabaseForbids | DatabaseUnsuitable => {
    if (!SqlError.isSqlError(error)) return error
    if (isForbidden(error))
      return new DatabaseForbids({
        message:
          "The database account lacks privileges on the tables or the schema: set SERVICE_DATABASE_OWNER_URL to the owner's address, or let the account in DATABASE_URL own the database."
      })
    if (describe(error).sqlstate === "3D000")
      return new DatabaseUnsuitable({ message: `The database in DATABASE_URL does not exist: ${create}` })
    return error
  })

/** Waits up to ten seconds for a first answer. */
export const reachable = Effect.gen(function* () {
  const { dedicated } = yield* Database
  let facts = { reason: "no answer", sqlstate: "" }
  const probe = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`select 1`)
  yield* dedicated(probe).pipe(
    explainLasting,
    Effect.tapErrorTag("SqlError", (error) => Effect.sync(() => (facts = describe(error)))),
    Effect.retry({ while: (error) => SqlError.isSqlError(error), schedule: Schedule.spaced("500 millis") }),
    Effect.timeoutOrElse({
      duration: "10 seconds",
      orElse: () =>
        new DatabaseUnreachable({
          message: `The database cannot be reached (${`${facts.reason} ${facts.sqlstate}`.trim()}); see DATABASE_URL, and try again.`
        })
    })
  )
})

/** If one of these settings of PostgreSQL is off, a power cut can undo an acknowledged revocation. */
export const durability = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* rows(Schema.Struct({ name: Schema.String, setting: Schema.String }))(
    sql`select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')`
  )
})

const warnIfNotDurable = Effect.gen(function* () {
  const off = (yield* durability).filter(({ setting }) => setting === "off").map(({ name }) => name)
  if (off.length > 0) {
    yield* Effect.logError(`PostgreSQL runs with ${off.join(", ")} off: a power cut can undo revocations. Turn it on.`)
  }
})
