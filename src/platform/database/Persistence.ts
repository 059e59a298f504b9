/**
 * The one place where a failure of the database becomes an answer.
 *
 * A transient failure (no connection, a timeout, a full disk, a schema not yet migrated) becomes
 * `bridge_persistence_error`: 503 with Retry-After. Any other failure is a defect.
 * Logs carry only the reason, the SQLSTATE and the constraint's name: PostgreSQL's messages can contain values.
 */
import { Cause, Data, Effect, Option, Random } from "effect"
import { SqlError } from "effect/sql"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"
import { inTime } from "./Deadline.ts"
import { logFault } from "./FaultLog.ts"
import { inTurn } from "./Shares.ts"

/** A statement failed, and would fail again. */
export class StatementDefect extends Data.TaggedError("StatementDefect")<{
  readonly reason: string
  readonly sqlstate: string
  readonly constraint: string
}> {}

const unavailable = refuse("bridge_persistence_error", 1)

/** Applied last to every method that uses the database. Retries conflicts. */
export const persistence = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(retryingConflicts(2), inTurn, inTime(late), longPersistence)

/**
 * The same without a turn: for a lookup that shares its statement (Together.ts), or an operation that takes its turns
 * itself.
 */
export const sharedPersistence = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(retryingConflicts(2), inTime(late), longPersistence)

/** How often a serialization failure is retried: a database that finds conflicts at the commit, as distributed ones do, has many. */
const mostFailures = 9

/** Runs an operation again that met a conflict: so many times at most, and more often after a serialization failure. */
export const retryingConflicts =
  (times: number) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    attempt(self, times, 0)

// Without `Effect.retry`, which prepares a schedule for each operation.
const attempt = <A, E, R>(self: Effect.Effect<A, E, R>, times: number, failures: number): Effect.Effect<A, E, R> =>
  self.pipe(
    Effect.catch((error) => {
      if (failures < mostFailures && isSerializationFailure(error))
        return Effect.andThen(pause(failures), attempt(self, times, failures + 1))
      return times > 0 && isConflict(error) ? attempt(self, times - 1, failures) : Effect.fail(error)
    })
  )

/** None before the first retry, then up to 2, 4, 8 … 100 ms, so that those who have met do not meet again. */
const pause = (failures: number) =>
  failures === 0 ? Effect.void : Effect.flatMap(Random.next, (share) => sleep(share * Math.min(100, 2 ** failures)))

/** By a timer of Node: it delays an operation, not what the operation depends on. */
const sleep = (millis: number) =>
  Effect.callback<void>((resume) => {
    const timer = setTimeout(() => resume(Effect.void), millis)
    return Effect.sync(() => clearTimeout(timer))
  })

/** For work on a dedicated connection: it has its own deadline, and may not be safe to repeat. */
export const longPersistence = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | SharedRefusal<"bridge_persistence_error">, R> =>
  self.pipe(
    Effect.catch(
      (error): Effect.Effect<never, Exclude<E, SqlError.SqlError> | SharedRefusal<"bridge_persistence_error">> =>
        SqlError.isSqlError(error) ? failureOf(error) : Effect.fail(error as Exclude<E, SqlError.SqlError>)
    )
  )

/** The answer to an exact retry whose original answer cannot be derived again. */
export const underivable = Effect.andThen(
  Effect.logWarning("An original answer cannot be derived again: the secret that derived it is not configured"),
  unavailable
)

const late = Effect.andThen(logFault("The database took too long", {}), unavailable)

/**
 * Runs an attempt that acts only when its conditions hold, and returns its result. If it returns none, `otherwise` runs:
 * usually a read that explains why the attempt did not act, and fails with the matching refusal.
 *
 * If both return none, another transaction changed the rows between the two. Both run again, five times in all; then the
 * caller gets `bridge_persistence_error`.
 */
export const untilSettled = Effect.fnUntraced(function* <A, E, R, A2 = never, E2 = never, R2 = never>(
  attempt: Effect.Effect<Option.Option<A>, E, R>,
  otherwise: Effect.Effect<Option.Option<A2>, E2, R2> = Effect.succeedNone
) {
  for (let times = 0; times < 5; times += 1) {
    const acted = yield* attempt
    if (Option.isSome(acted)) return acted.value
    const found = yield* otherwise
    if (Option.isSome(found)) return found.value
  }
  return yield* unavailable
})

const failureOf = Effect.fnUntraced(function* (error: SqlError.SqlError) {
  const facts = describe(error)
  if (!isTransient(error)) return yield* Effect.die(new StatementDefect(facts))
  yield* logFault("A database operation failed", facts)
  return yield* unavailable
})

const isSerializationFailure = (error: unknown) =>
  SqlError.isSqlError(error) && error.reason._tag === "SerializationError"

/** A deadlock, or a reference (23503) to a row that was erased a moment ago: a retry misses it. */
const isConflict = (error: unknown) =>
  SqlError.isSqlError(error) && (error.reason._tag === "DeadlockError" || describe(error).sqlstate === "23503")

// Classes 08 connection, 53 resources, 57 operator intervention and timeouts, 58 system. 28, 3D, 55000: login refused,
// no such database, or it accepts no connections. 25006: a standby, which is read-only. 25P03, 25P04: a transaction
// idled too long because this machine stalled. 42P01, 42703, 3F000: the migrations have not run yet.
const transient = /^(08|53|57|58|28|3D|25006|25P0[34]|55000|42P01|42703|3F000)/

const isTransient = (error: SqlError.SqlError) => error.isRetryable || transient.test(describe(error).sqlstate)

export const describe = ({ reason }: SqlError.SqlError) => ({
  reason: reason._tag,
  sqlstate: sqlstate(reason.cause),
  ...(reason._tag === "ConnectionError" && driverFailure(reason.cause)),
  constraint: reason._tag === "UniqueViolation" ? reason.constraint : ""
})

/** What the driver saw when no answer came, such as `Connection terminated unexpectedly`: its own words, no values. */
const driverFailure = (cause: unknown) => cause instanceof Error && sqlstate(cause) === "" && { cause: cause.message }

const sqlstate = (cause: unknown) =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string" ? cause.code : ""

/** A defect's name and stack frames, for the log. Its message may quote input, so it is left out. */
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
