/**
 * Connections to the one server that takes writes (decisions.md, The server that takes writes).
 *
 * 1. Every host has a pool. With several hosts, all are asked at once whether their server takes writes, and the first
 *    that does leads from then on. One host leads without being asked.
 * 2. A new connection of the leader says which server it reached before it is used: a proxy may have led it to a standby,
 *    or to another server than before. Connections to the server before are then closed instead of being used again.
 * 3. The leader is left when it cannot be connected to, or takes no writes. The next connection asks all hosts again.
 *
 * A standby is not even read: what is revoked at the primary may still be valid there.
 */
import { PgConnection, PgPool } from "@effect/sql-pg"
import { Clock, Deferred, Effect, Exit, Schedule, Scope, Stream } from "effect"
import { SqlConnection, SqlError } from "effect/sql"
import { logFault } from "./FaultLog.ts"

interface Leader {
  readonly place: string
  readonly pool: PgPool.PgPool
  /** Undefined until a connection has said it. */
  readonly server: string | undefined
}

type Election = Deferred.Deferred<Leader, SqlError.SqlError>

/** What a connection is known to reach. */
interface Reached {
  readonly server: string
  /** Milliseconds. */
  readonly at: number
}

export interface Primary {
  /** A connection for one statement, or the connection of a transaction. */
  readonly acquire: Effect.Effect<SqlConnection.Connection, SqlError.SqlError, Scope.Scope>
  readonly reserve: Effect.Effect<SqlConnection.Connection, SqlError.SqlError, Scope.Scope>
  /** Which server was reached last; another one after a failover or a restart. */
  readonly server: () => string | undefined
}

/** Behind a pooler a connection stays when its server changes, so it is asked again after so many milliseconds. */
const behindPooler = 1000

export const makePrimary = Effect.fnUntraced(function* (
  configs: ReadonlyArray<PgPool.Config>,
  { guarded, pooler }: { readonly guarded: boolean; readonly pooler: boolean }
) {
  const scope = yield* Scope.Scope
  const clock = yield* Clock.Clock
  const hosts = yield* Effect.forEach(configs, (config) =>
    Effect.map(PgPool.make(config), (pool) => ({ config, place: `${config.host}:${config.port}`, pool }))
  )
  const known = new WeakMap<PgConnection.PgConnection, Reached>()
  let leader: Leader | undefined
  let election: Election | undefined
  let latest: string | undefined

  const leave = (left: Leader, reason: string) =>
    Effect.suspend(() => {
      if (leader?.pool !== left.pool) return Effect.void
      leader = undefined
      latest = undefined
      return logFault("A database server was left", { server: left.place, reason })
    })

  const settle = (outcome: Election, exit: Exit.Exit<Leader, SqlError.SqlError>) =>
    Effect.suspend(() => {
      if (election !== outcome) return Effect.void
      election = undefined
      if (Exit.isSuccess(exit)) {
        leader = exit.value
        latest = exit.value.server
      }
      return Deferred.done(outcome, exit)
    })

  /**
   * Asks every host at once. A standby is asked again while another host does not answer, because it may be promoted in
   * that one's place. An answer after the first that takes writes changes nothing.
   */
  const elect = (outcome: Election) => {
    const silent = new Set(hosts)
    return Effect.forEach(
      hosts,
      (host) => {
        const { config, place, pool } = host
        return Effect.scoped(Effect.flatMap(PgConnection.make(config), identify)).pipe(
          Effect.timeoutOrElse({ duration: "3 seconds", orElse: () => Effect.fail(failureOf(new Error("no answer"))) }),
          Effect.onExit(() => Effect.sync(() => silent.delete(host))),
          Effect.retry({
            while: (error) => takesNoWrites(error) && silent.size > 0,
            schedule: Schedule.spaced("200 millis")
          }),
          Effect.flatMap((server) => settle(outcome, Exit.succeed({ place, pool, server }))),
          Effect.match({ onFailure: (error) => [{ place, error }], onSuccess: () => [] })
        )
      },
      { concurrency: "unbounded" }
    ).pipe(Effect.flatMap((failures) => settle(outcome, Exit.fail(explained(failures.flat())))))
  }

  /** In a fiber of its own: whoever comes meanwhile waits for the same outcome. */
  const current = Effect.suspend(() => {
    if (leader !== undefined) return Effect.succeed(leader)
    if (hosts.length === 1) return Effect.succeed((leader = { ...hosts[0]!, server: undefined }))
    if (election !== undefined) return Deferred.await(election)
    election = Deferred.makeUnsafe()
    return Effect.andThen(Effect.forkIn(elect(election), scope), Deferred.await(election))
  })

  const isRecent = ({ at }: Reached) => !pooler || clock.currentTimeMillisUnsafe() - at < behindPooler

  /** Which server a connection of the leader reaches. */
  const reached = Effect.fnUntraced(function* (of: Leader, connection: PgConnection.PgConnection) {
    const before = known.get(connection)
    if (before !== undefined && of.server !== undefined && isRecent(before)) return before.server
    const server = yield* identify(connection).pipe(
      Effect.tapError((error) =>
        takesNoWrites(error) ? Effect.andThen(of.pool.invalidate(connection), leave(of, standby)) : Effect.void
      )
    )
    if (before === undefined && guarded) {
      const { config } = hosts.find(({ pool }) => pool === of.pool)!
      Object.assign(connection, { cancel: cancelUnlessCommitted(config, connection) })
    }
    known.set(connection, { server, at: clock.currentTimeMillisUnsafe() })
    // A connection that was asked for the first time has reached the newer server.
    if (leader === of && of.server !== server && (of.server === undefined || before?.server !== server)) {
      leader = { ...of, server }
    }
    if (leader?.pool === of.pool) latest = leader.server
    return server
  })

  const lease = Effect.gen(function* () {
    while (true) {
      const of = yield* current
      const connection = yield* of.pool.get.pipe(
        Effect.tapError((error) =>
          hosts.length > 1 && isUnreachable(error) ? leave(of, "no connection") : Effect.void
        )
      )
      const server = yield* reached(of, connection)
      if (leader?.pool !== of.pool) continue
      if (leader.server === server) return { connection, of }
      yield* of.pool.invalidate(connection)
    }
  })

  const watched = (of: Leader, connection: PgConnection.PgConnection): SqlConnection.Connection => {
    const run = <A>(statement: Effect.Effect<A, SqlError.SqlError>) =>
      Effect.tapError(statement, (error) => (takesNoWrites(error) ? leave(of, standby) : Effect.void))
    const rows = (sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) =>
      run(Effect.map(connection.query(sql, values, prepare), (result) => result.rows))
    return {
      execute: (sql, values, transform) => transformed(rows(sql, values), transform),
      executeUnprepared: (sql, values, transform) => transformed(rows(sql, values, false), transform),
      executeRaw: (sql, values) => run(connection.query(sql, values)),
      executeValues: (sql, values) => run(connection.queryValues(sql, values)),
      executeValuesUnprepared: (sql, values) => run(connection.queryValues(sql, values, false)),
      executeStream: (sql, values, transform) => {
        const stream = connection.stream(sql, values)
        return transform === undefined ? stream : Stream.mapArray(stream, (rows) => transform(rows) as typeof rows)
      }
    }
  }

  return {
    acquire: Effect.map(lease, ({ connection, of }) => watched(of, connection)),
    reserve: Effect.flatMap(lease, ({ connection, of }) => Effect.map(connection.pin, (pinned) => watched(of, pinned))),
    server: () => latest
  } satisfies Primary
})

/**
 * The driver cancels a statement whose caller has gone. A commit that waits for the synchronous standby would then become
 * visible without it: a retry would be acknowledged from it, and a failover would undo it. So it is left to wait.
 */
const cancelUnlessCommitted = (config: PgPool.Config, connection: PgConnection.PgConnection) => {
  const { cancel } = connection as unknown as { readonly cancel: Effect.Effect<void> }
  const committed = Effect.flatMap(PgConnection.make(config), (session) =>
    session.query(
      "select wait_event = 'SyncRep' as waits from pg_stat_activity where pid = $1",
      [connection.processId],
      false
    )
  )
  return Effect.scoped(committed).pipe(
    Effect.timeout("1 second"),
    // Unknown counts as committed: statement_timeout ends what still runs.
    Effect.match({ onFailure: () => true, onSuccess: ({ rows: [row] }) => row?.["waits"] === true }),
    Effect.flatMap((waits) => (waits ? Effect.void : cancel))
  )
}

const transformed = (
  rows: Effect.Effect<ReadonlyArray<PgConnection.Row>, SqlError.SqlError>,
  transform: Parameters<SqlConnection.Connection["execute"]>[2]
) => (transform === undefined ? rows : Effect.map(rows, transform))

/** The start of a server is its name: no two start in the same microsecond, and after a restart it is another one. */
const identify = (connection: PgConnection.PgConnection) =>
  connection
    .query(
      `select extract(epoch from pg_postmaster_start_time())::text as server,
              pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' as read_only`,
      [],
      false
    )
    .pipe(
      Effect.flatMap(({ rows: [row] }) =>
        row?.["read_only"] === false ? Effect.succeed(String(row["server"])) : Effect.fail(readOnly)
      )
    )

/** What logs, commands and `doctor` say. */
export const standby = "it is a standby, or read-only"

const failureOf = (cause: Error) =>
  new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, operation: "connect" }) })

/** The SQLSTATE with which PostgreSQL refuses writes to a standby. */
export const readOnlySqlstate = "25006"
const readOnly = failureOf(Object.assign(new Error(standby), { code: readOnlySqlstate }))

const sqlstateOf = ({ reason }: SqlError.SqlError) => {
  const { cause } = reason
  return typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined
}

const takesNoWrites = (error: SqlError.SqlError) => sqlstateOf(error) === readOnlySqlstate

/** 57P03: the server starts or stops. */
const isUnreachable = (error: SqlError.SqlError) =>
  error.reason._tag === "ConnectionError" || sqlstateOf(error) === "57P03"

/** A wrong password, or a database that is not there, explains more than servers that are away or standbys. */
const explained = (failures: ReadonlyArray<{ readonly place: string; readonly error: SqlError.SqlError }>) =>
  failures.find(({ error }) => !isUnreachable(error))?.error ??
  failureOf(new Error(failures.map(({ error, place }) => `${place}: ${causeOf(error)}`).join("; ")))

const causeOf = ({ reason: { cause } }: SqlError.SqlError) => (cause instanceof Error ? cause.message : "no connection")
