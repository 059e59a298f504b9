/**
 * The PostgreSQL that ships with the service and runs without DATABASE_URL (decisions.md, The embedded database).
 *
 * 1. Files: PostgresFiles.ts finds or creates the database folder.
 * 2. Join: a process connects to the server of that folder, and launches the server if none answers, after it has made
 *    the server ask for the password (PostgresPassword.ts).
 * 3. Stay: the process holds one session with a shared advisory lock, and joins again if it loses the session.
 * 4. Leave: the process releases its share. If it can then take the lock exclusively it is the last, and stops the server.
 * A killed server needs no cleanup: the next join launches a new one.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Deferred, Effect, Queue, Schedule } from "effect"
import { SqlError } from "effect/sql"
import type { ChildProcess } from "node:child_process"
import { DataFolderError } from "../../settings/DataFolder.ts"
import { attempt, EmbeddedPostgresError, type PostgresMissing } from "./EmbeddedPostgresError.ts"
import { type PostgresFiles, postgresFiles } from "./PostgresFiles.ts"
import { requirePassword } from "./PostgresPassword.ts"
import { connect, end, hasEnded, isServed, launch, retrySchedule, type Postmaster, stop, trim } from "./Postmaster.ts"

export { EmbeddedPostgresError }

/** Joins or starts the PostgreSQL of `dataDir`, until the scope closes. */
export const embeddedPostgres = Effect.fn("EmbeddedPostgres.join")(function* (dataDir: string) {
  const late = new EmbeddedPostgresError({
    message: `The database in ${dataDir} could not be created within 30 seconds.`
  })
  const files = yield* postgresFiles(dataDir).pipe(inTime(late))
  const joined = yield* Deferred.make<Postmaster, EmbeddedPostgresError | DataFolderError | PostgresMissing>()
  yield* stay(files, joined).pipe(
    Effect.forever,
    Effect.tapError((error) => Effect.when(Effect.logError(error.message), Deferred.isDone(joined))),
    Effect.retry({ while: () => Deferred.isDone(joined), schedule: Schedule.spaced("1 second") }),
    Effect.onExit((exit) => Deferred.done(joined, exit)),
    Effect.forkScoped
  )
  return yield* Deferred.await(joined)
})

const inTime =
  (late: EmbeddedPostgresError) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.timeoutOrElse(self, { duration: "30 seconds", orElse: () => Effect.fail(late) })

/** Ends when the session is lost. The socket's path never changes, so pools reconnect once the server is back. */
const stay = Effect.fnUntraced(function* (
  files: PostgresFiles,
  joined: Deferred.Deferred<Postmaster, EmbeddedPostgresError | DataFolderError | PostgresMissing>
) {
  const { postmaster, session } = yield* join(files)
  yield* Deferred.succeed(joined, postmaster)
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(attempt(() => trim(files.log))), Schedule.spaced("1 hour")))
  yield* session.listen("bridge_service").pipe(Effect.flatMap(Queue.take), Effect.scoped, Effect.ignore)
  yield* Effect.logWarning("The connection to the embedded PostgreSQL was lost; reconnecting.")
}, Effect.scoped)

/** A server that is starting or stopping refuses connections. The retry finds it started, or launches a new one. */
const join = (files: PostgresFiles) => {
  const late = new EmbeddedPostgresError({
    message: `PostgreSQL did not answer within 30 seconds: ${files.log} says why.`
  })
  let child: ChildProcess | undefined
  const otherPassword = new EmbeddedPostgresError({
    message: `PostgreSQL runs with another password than the data folder holds: stop every process of the service, then start again.`
  })
  const launched = Effect.gen(function* () {
    if (child !== undefined && !hasEnded(child)) return
    // A running server is left alone: it asks for the password already, or belongs to a process of an earlier release. So is
    // a PostgreSQL that sets the password for a start that was killed: once it has ended, the retry sees what it has done.
    if (yield* attempt(() => isServed(files.directory))) return
    yield* requirePassword(files)
    child = yield* attempt(() => launch(files, { detached: true }))
  })
  return lock(files).pipe(
    Effect.tapError(() => launched),
    Effect.mapError((error) => {
      if (error instanceof EmbeddedPostgresError || error instanceof DataFolderError) return error
      return SqlError.isSqlError(error) && error.reason._tag === "AuthenticationError" ? otherPassword : late
    }),
    Effect.retry({ while: (error) => error === late, schedule: retrySchedule }),
    inTime(late),
    Effect.onInterrupt(() => (child === undefined ? Effect.void : end(child)))
  )
}

const inUse = "hashtextextended('bridge-service in use', 0)"

/** Waits while another process stops the server. The shutdown ends this session too, and the join starts over. */
const lock = Effect.fnUntraced(function* (files: PostgresFiles) {
  const { postmaster, session } = yield* connect(files)
  const share = session.query(`select pg_advisory_lock_shared(${inUse})`)
  yield* Effect.acquireRelease(share, () => leave(session, files.directory), { interruptible: true })
  return { postmaster, session }
})

/** Releases its share first, so that of two processes that leave at the same time one gets the exclusive lock. */
const leave = Effect.fnUntraced(
  function* (session: PgConnection.PgConnection, directory: string) {
    const { rows } = yield* session.query(
      `select case when pg_advisory_unlock_shared(${inUse}) then pg_try_advisory_lock(${inUse}) end as last`
    )
    if (rows[0]?.["last"] === true) yield* stop(directory)
  },
  (leaving) => Effect.ignore(leaving)
)
