/**
 * The connection to PostgreSQL: DATABASE_URL (for commands SERVICE_DATABASE_OWNER_URL, if set), or the embedded
 * PostgreSQL in SERVICE_DATA_DIR.
 *
 * Requests use a pool with timeouts. Migrations, backup, import and sweeps use dedicated connections without timeouts.
 */
import { PgClient, type PgPool } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import { Settings } from "../settings/Settings.ts"
import { rows } from "../sql/Rows.ts"
import { embeddedPostgres } from "./embedded/EmbeddedPostgres.ts"
import { type Migration, migrate, review, shipped } from "./Migrations.ts"
import { describe, longPersistence } from "./Persistence.ts"
import { makePrimary, readOnlySqlstate, standby } from "./Primary.ts"
import { type Server, serversIn } from "./Servers.ts"
import { limitTransactions } from "./Transactions.ts"

interface Connections {
  /** Runs an effect on a connection without timeouts, for at most `limit`: ten minutes, unless it is given. */
  readonly dedicated: <A, E, R>(
    work: Effect.Effect<A, E, R>,
    limit?: Duration.Duration
  ) => Effect.Effect<A, E | SqlError.SqlError, Exclude<R, SqlClient.SqlClient>>
  /** The folder of the embedded PostgreSQL; undefined with DATABASE_URL. */
  readonly embedded: string | undefined
  /** Another database of the same server. */
  readonly beside: (name: string) => Connections
  /** Which server the pool reached last; another one after a failover or a restart, undefined until one is found. */
  readonly server: () => string | undefined
}

export class Database extends Context.Service<Database, Connections>()("service/database/Database") {
  static readonly layer = Layer.unwrap(
    Effect.gen(function* () {
      const { database } = yield* Settings
      if (database.url !== undefined) {
        return connected(yield* serversIn(Redacted.value(database.ownerUrl ?? database.url)), database)
      }
      const { directory, host, password, port, username, ...running } = yield* embeddedPostgres(database.dataDir)
      const address = { host, password, port, username, database: running.database }
      return connected(address, { ...database, pooler: false }, directory)
    })
  )
}

/** Backs up the deadline of each operation (Persistence.ts): PostgreSQL cancels statements that nobody waits for. */
const timeouts = { statement_timeout: "5s", lock_timeout: "2s", idle_in_transaction_session_timeout: "10s" }

type Pooled = Pick<Settings["Service"]["database"], "pooler" | "poolSize">

/**
 * The pool of the server that takes writes, and its dedicated connections. A pooler in transaction mode shares sessions
 * between clients, so with a pooler statements are not prepared and timeouts are not set on the session.
 */
export const connected = (given: Server | ReadonlyArray<Server>, { pooler, poolSize }: Pooled, embedded?: string) => {
  const servers = [given]
    .flat()
    .map((server) => ({ connectTimeout: "5 seconds", ...server, prepare: !pooler }) as const)
  return Layer.effectContext(
    Effect.gen(function* () {
      const { client, server } = yield* bounded("5 seconds", pooler, servers, {
        applicationName: "bridge-service",
        maxConnections: poolSize,
        connectionTTL: "10 minutes",
        startupParameters: pooler ? { timezone: "UTC" } : { ...timeouts, timezone: "UTC" }
      })
      return Context.make(SqlClient.SqlClient, client).pipe(
        Context.add(Database, Database.of(maintenance(servers, pooler, embedded, server)))
      )
    })
  )
}

const maintenance = (
  servers: ReadonlyArray<Server>,
  pooler: boolean,
  embedded: string | undefined,
  server: Connections["server"]
): Connections => {
  const single = bounded("1 minute", pooler, servers, {
    applicationName: "bridge-service maintenance",
    maxConnections: 1,
    startupParameters: { timezone: "UTC" }
  })
  const dedicated = <A, E, R>(work: Effect.Effect<A, E, R>, limit = Duration.minutes(10)) =>
    single.pipe(
      Effect.flatMap(({ client }) => Effect.provideService(work, SqlClient.SqlClient, client)),
      Effect.scoped,
      Effect.timeoutOrElse({
        duration: limit,
        orElse: () => Effect.die(new TooLong(limit))
      })
    )
  const beside = (database: string) =>
    maintenance(
      servers.map((each) => ({ ...each, database })),
      pooler,
      embedded,
      server
    )
  return { dedicated, embedded, beside, server }
}

/** Logs say the name of a defect. */
class TooLong extends Error {
  override readonly name: string
  constructor(limit: Duration.Duration) {
    super()
    this.name = `Maintenance exceeded its limit of ${Duration.format(limit)}`
  }
}

const bounded = Effect.fnUntraced(function* (
  limit: Duration.Input,
  pooler: boolean,
  servers: ReadonlyArray<Server>,
  pool: PgPool.Config
) {
  const primary = yield* makePrimary(
    servers.map((server) => ({ ...server, ...pool })),
    { guarded: pool.startupParameters?.["statement_timeout"] !== undefined, pooler }
  )
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: primary.acquire,
    transactionAcquirer: primary.reserve,
    prepareTransactionControls: true,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [["db.system.name", "postgresql"]]
  }).pipe(Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make))
  return { client: limitTransactions(client, limit), server: primary.server }
})

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

/** The oldest major version that `npm run chaos versions` runs. */
const oldestVersion = 15

/** In SQL_ASCII, PostgreSQL neither checks text nor counts its characters; other encodings lack most of them. */
export const suitable = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* rows(
    Schema.Struct({ encoding: Schema.String, number: Schema.Int, version: Schema.String })
  )(sql`
    select current_setting('server_encoding') as encoding,
           current_setting('server_version_num')::int as number,
           current_setting('server_version') as version`)
  const { encoding, number, version } = found!
  if (number < oldestVersion * 10_000) {
    return yield* new DatabaseUnsuitable({
      message: `The database in DATABASE_URL is of PostgreSQL ${version}, which is too old: move it to ${oldestVersion} or newer with pg_upgrade or pg_dump.`
    })
  }
  if (encoding !== "UTF8") {
    return yield* new DatabaseUnsuitable({
      message: `The database in DATABASE_URL has the encoding ${encoding}, and must have UTF8: ${create}; pg_dump moves what the old one holds.`
    })
  }
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
  let seen = "no answer"
  const probe = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`select 1`)
  yield* dedicated(probe).pipe(
    explainLasting,
    Effect.tapErrorTag("SqlError", (error) =>
      Effect.sync(() => {
        const { cause, reason, sqlstate } = describe(error)
        seen = sqlstate === readOnlySqlstate ? standby : (cause ?? `${reason} ${sqlstate}`.trim())
      })
    ),
    Effect.retry({ while: (error) => SqlError.isSqlError(error), schedule: Schedule.spaced("500 millis") }),
    Effect.timeoutOrElse({
      duration: "10 seconds",
      orElse: () =>
        new DatabaseUnreachable({
          message: `The database cannot be reached (${seen}); see DATABASE_URL, and try again.`
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
