/**
 * The connection to PostgreSQL: DATABASE_URL, or the managed PostgreSQL in SERVICE_DATA_DIR (contract section 1).
 *
 * Requests use a pool with timeouts; migrations, backup, import and sweeps take a connection of their own without them.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, type Duration, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Settings } from "../settings/Settings.ts"
import { rows } from "../sql/Rows.ts"
import { managedPostgres } from "./embedded/ManagedPostgres.ts"
import { migrate, MigrationError } from "./Migrations.ts"
import { describe, longPersistence } from "./Persistence.ts"
import { limitTransactions } from "./Transactions.ts"

export class Database extends Context.Service<
  Database,
  {
    /** Runs an effect on a connection without timeouts, for at most ten minutes. */
    readonly dedicated: <A, E, R>(
      work: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E | SqlError.SqlError, Exclude<R, SqlClient.SqlClient>>
    /** Folder of the managed PostgreSQL, absent with DATABASE_URL. */
    readonly managed: string | undefined
  }
>()("service/database/Database") {
  static readonly layer = Layer.unwrap(
    Effect.gen(function* () {
      const { database } = yield* Settings
      if (database.url !== undefined) return connected({ url: database.url }, database)
      const { directory, host, port, username, database: name } = yield* managedPostgres(database.dataDir)
      return connected({ host, port, username, database: name }, { ...database, pooler: false }, directory)
    })
  )
}

/** Behind the deadline of each operation (Persistence.ts), so that nothing lives on that nobody waits for. */
const timeouts = { statement_timeout: "5s", lock_timeout: "2s", idle_in_transaction_session_timeout: "10s" }

type Pooled = Pick<Settings["Service"]["database"], "pooler" | "poolSize">
type Address = Pick<PgClient.PgClientConfig, "url" | "host" | "port" | "username" | "database">

/** The pool of one database and the way to connections beside it. A pooler keeps nothing of a session for us. */
export const connected = (address: Address, { pooler, poolSize }: Pooled, managed?: string) => {
  const each = { ...address, connectTimeout: "5 seconds", prepare: !pooler } as const
  const pool = bounded("5 seconds", {
    ...each,
    applicationName: "bridge-service",
    maxConnections: poolSize,
    connectionTTL: "10 minutes",
    startupParameters: pooler ? { timezone: "UTC" } : { ...timeouts, timezone: "UTC" }
  })
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
      Effect.timeoutOrElse({ duration: "10 minutes", orElse: () => Effect.die("Ten minutes were not enough.") })
    )
  return Layer.merge(pool, Layer.succeed(Database, Database.of({ dedicated, managed })))
}

const bounded = (limit: Duration.Input, config: PgClient.PgPoolConfig) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.map(PgClient.PgClient, (client) => limitTransactions(client, limit))
  ).pipe(Layer.provide(PgClient.layer(config)))

/** Migrates as soon as the database lets it, then warns about settings that would lose acknowledged writes. */
export const migrateUntilDone = Effect.gen(function* () {
  const { dedicated } = yield* Database
  yield* dedicated(Effect.andThen(migrate(), warnIfNotDurable)).pipe(
    Effect.tapErrorTag("SqlError", (error) =>
      Effect.logWarning("Waiting for the database").pipe(Effect.annotateLogs(describe(error)))
    ),
    Effect.retry({
      while: (error) => !(error instanceof MigrationError),
      schedule: Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")])
    })
  )
})

/** It was asked for ten seconds. */
export class DatabaseUnreachable extends Data.TaggedError("DatabaseUnreachable")<{ readonly message: string }> {}

/** For commands: answers the names of the files that ran, or gives up. */
export const migrateSoon = Effect.gen(function* () {
  const { dedicated } = yield* Database
  yield* reachable
  return yield* dedicated(migrate()).pipe(allowed, longPersistence)
})

/** It lets its account in, and then does not let it work. */
export class DatabaseForbids extends Data.TaggedError("DatabaseForbids")<{ readonly message: string }> {}

/** For commands: a missing right is the operator's to give, no defect. */
export const allowed = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error) => SqlError.isSqlError(error) && error.reason._tag === "AuthorizationError",
    () =>
      new DatabaseForbids({
        message: "The account in DATABASE_URL may not create tables there, or not use them: let it own the database."
      })
  )

/** A first answer within ten seconds. */
export const reachable = Effect.gen(function* () {
  const { dedicated } = yield* Database
  let facts = { reason: "no answer", sqlstate: "" }
  const ask = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`select 1`)
  yield* dedicated(ask).pipe(
    Effect.tapErrorTag("SqlError", (error) => Effect.sync(() => (facts = describe(error)))),
    Effect.retry(Schedule.spaced("500 millis")),
    Effect.timeoutOrElse({
      duration: "10 seconds",
      orElse: () =>
        new DatabaseUnreachable({
          message: `The database cannot be reached (${`${facts.reason} ${facts.sqlstate}`.trim()}); see DATABASE_URL, and try again.`
        })
    })
  )
})

/** Settings of PostgreSQL without which a power cut can undo an acknowledged revocation. */
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
