/**
 * The PostgreSQL that the service brings along, for when there is no DATABASE_URL (contract section 1).
 *
 * 1. Files: PostgresFiles.ts finds or makes the database folder.
 * 2. Join: whoever needs the database connects to the server of that folder, and launches one if nobody answers.
 * 3. Stay: each holds one session with a shared advisory lock, and joins again if the session is lost.
 * 4. Leave: whoever can then take the lock alone is the last one, and stops the server.
 * A server that was killed, or whose starter was, needs no care: the next join replaces or finds it.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Deferred, Effect, Queue, Schedule } from "effect"
import type { ChildProcess } from "node:child_process"
import { attempt, ManagedPostgresError } from "./ManagedPostgresError.ts"
import { type PostgresFiles, postgresFiles } from "./PostgresFiles.ts"
import { connect, end, hasEnded, launch, patience, type Postmaster, stop, trim } from "./Postmaster.ts"

export { ManagedPostgresError }

/** Joins or starts the PostgreSQL of `dataDir`, until the scope closes. */
export const managedPostgres = Effect.fn("ManagedPostgres.join")(function* (dataDir: string) {
  const late = new ManagedPostgresError({ message: `The database in ${dataDir} could not be made within 30 seconds.` })
  const files = yield* postgresFiles(dataDir).pipe(inTime(late))
  const joined = yield* Deferred.make<Postmaster, ManagedPostgresError>()
  yield* stay(files, joined).pipe(
    Effect.forever,
    Effect.tapError((error) => Effect.when(Effect.logError(error.message), Deferred.isDone(joined))),
    Effect.retry({ while: () => Deferred.isDone(joined) }),
    Effect.onExit((exit) => Deferred.done(joined, exit)),
    Effect.forkScoped
  )
  return yield* Deferred.await(joined)
})

const inTime =
  (late: ManagedPostgresError) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.timeoutOrElse(self, { duration: "30 seconds", orElse: () => Effect.fail(late) })

/** Ends when the session is lost; the socket keeps its place, so every pool heals once the server is back. */
const stay = Effect.fnUntraced(function* (
  files: PostgresFiles,
  joined: Deferred.Deferred<Postmaster, ManagedPostgresError>
) {
  const { postmaster, session } = yield* join(files)
  yield* Deferred.succeed(joined, postmaster)
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(attempt(() => trim(files.log))), Schedule.spaced("1 hour")))
  yield* session.listen("bridge_service").pipe(Effect.flatMap(Queue.take), Effect.scoped, Effect.ignore)
  yield* Effect.logWarning("The connection to the embedded PostgreSQL was lost; reconnecting.")
}, Effect.scoped)

/** A server that starts or stops refuses: asking again finds the one that started, or replaces the one that stopped. */
const join = (files: PostgresFiles) => {
  const late = new ManagedPostgresError({
    message: `PostgreSQL did not answer within 30 seconds: ${files.log} says why.`
  })
  let child: ChildProcess | undefined
  const launched = attempt(() => {
    if (child === undefined || hasEnded(child)) child = launch(files, { detached: true })
  })
  return lock(files.directory).pipe(
    Effect.tapError(() => launched),
    Effect.mapError((error) => (error._tag === "ManagedPostgresError" ? error : late)),
    Effect.retry({ while: (error) => error === late, schedule: patience }),
    inTime(late),
    Effect.onInterrupt(() => (child === undefined ? Effect.void : end(child)))
  )
}

const inUse = "hashtextextended('bridge-service in use', 0)"

/** Waits for one who is just stopping the server; the shutdown then ends the wait, and the join starts over. */
const lock = Effect.fnUntraced(function* (directory: string) {
  const { postmaster, session } = yield* connect(directory)
  const share = session.query(`select pg_advisory_lock_shared(${inUse})`)
  yield* Effect.acquireRelease(share, () => leave(session, directory), { interruptible: true })
  return { postmaster, session }
})

/** Gives up its share first: of two who leave at once, one is the last. */
const leave = Effect.fnUntraced(
  function* (session: PgConnection.PgConnection, directory: string) {
    const { rows } = yield* session.query(
      `select case when pg_advisory_unlock_shared(${inUse}) then pg_try_advisory_lock(${inUse}) end as last`
    )
    if (rows[0]?.["last"] === true) yield* stop(directory)
  },
  (leaving) => Effect.ignore(leaving)
)
