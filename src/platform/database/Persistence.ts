/**
 * The one place where a failure of the database becomes an answer.
 *
 * What may pass by itself (no connection, a timeout, a full disk, a schema not yet migrated) is
 * `bridge_persistence_error`: 503 with Retry-After. Anything else is a defect of ours.
 * Only a reason, a SQLSTATE and a constraint's name are ever logged: PostgreSQL's own text can carry values.
 */
import { Cause, Data, Effect, Option } from "effect"
import { SqlError } from "effect/sql"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"
import { inTime } from "./Deadline.ts"

/** A statement failed for a reason that no retry mends. */
export class StatementDefect extends Data.TaggedError("StatementDefect")<{
  readonly reason: string
  readonly sqlstate: string
  readonly constraint: string
}> {}

const unavailable = refuse("bridge_persistence_error", 1)

/** Put last on every method that touches the database. Deadlocks and serialization failures are tried again first. */
export const persistence = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.retry({ while: (error: E) => SqlError.isSqlError(error) && isConflict(error), times: 2 }),
    inTime(late),
    longPersistence
  )

/** For work on a dedicated connection, which has a deadline of its own, and may not be work to begin twice. */
export const longPersistence = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | SharedRefusal<"bridge_persistence_error">, R> =>
  self.pipe(
    Effect.catch(
      (error): Effect.Effect<never, Exclude<E, SqlError.SqlError> | SharedRefusal<"bridge_persistence_error">> =>
        SqlError.isSqlError(error) ? answered(error) : Effect.fail(error as Exclude<E, SqlError.SqlError>)
    )
  )

const late = Effect.andThen(Effect.logWarning("The database took too long"), unavailable)

/**
 * For a statement that acts only when its conditions hold, followed by a read that explains why it did not act.
 * None means that by the time of the read the conditions did hold: another caller came between. It is tried again.
 */
export const untilSettled = <A, E, R>(attempt: Effect.Effect<Option.Option<A>, E, R>) =>
  attempt.pipe(
    Effect.repeat({ until: Option.isSome, times: 4 }),
    Effect.flatMap(Option.match({ onNone: () => Effect.fail(unavailable), onSome: Effect.succeed<A> }))
  )

const answered = Effect.fnUntraced(function* (error: SqlError.SqlError) {
  const facts = describe(error)
  if (!isPassing(error)) return yield* Effect.die(new StatementDefect(facts))
  yield* Effect.logWarning("A database operation failed").pipe(Effect.annotateLogs(facts))
  return yield* unavailable
})

const isConflict = ({ reason }: SqlError.SqlError) =>
  reason._tag === "SerializationError" || reason._tag === "DeadlockError"

// Class 08 connection, 53 resources, 57 operator and timeouts, 58 system; 28, 3D, 55000: not let in, no such database, or
// one that takes no connections; 25006: a standby, which takes no writes; 25P03, 25P04: a transaction that stood still,
// because this machine did; 42P01, 42703, 3F000: the schema of this version is not there yet.
const passing = /^(08|53|57|58|28|3D|25006|25P0[34]|55000|42P01|42703|3F000)/

const isPassing = (error: SqlError.SqlError) =>
  error.isRetryable || error.reason._tag === "ConnectionError" || passing.test(describe(error).sqlstate)

export const describe = ({ reason }: SqlError.SqlError) => ({
  reason: reason._tag,
  sqlstate: sqlstate(reason.cause),
  constraint: reason._tag === "UniqueViolation" ? reason.constraint : ""
})

const sqlstate = (cause: unknown) =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string" ? cause.code : ""

/** Names and places only: a message may quote what was sent. */
export const withoutValues = (cause: Cause.Cause<unknown>) => {
  const defect = Cause.squash(cause)
  if (defect instanceof StatementDefect) return { ...defect }
  if (!(defect instanceof Error)) return { defect: typeof defect }
  return {
    defect: defect.name,
    at:
      defect.stack
        ?.split("\n")
        .filter((line) => /^\s+at /.test(line))
        .join("\n") ?? ""
  }
}
