/**
 * Keeps the partitions of the audit log: twelve months ahead, and none whose last day is older than
 * SERVICE_AUDIT_RETENTION_DAYS.
 *
 * The owner of the tables does this: the service with the embedded database, `service-admin maintain-audit-log` with an
 * external one. A service whose account is the owner of an external database does it, too.
 */
import { Cause, Context, Duration, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database, explainLasting, type DatabaseForbids, type DatabaseUnsuitable } from "../database/Database.ts"
import { describe, longPersistence, withoutValues } from "../database/Persistence.ts"
import { count, sweepFailures } from "../metrics/Metrics.ts"
import { operator } from "../settings/Operator.ts"
import { Settings } from "../settings/Settings.ts"
import { traceAt } from "./Audit.ts"
import * as AuditStore from "./AuditStore.ts"
import * as Store from "./PartitionStore.ts"

const ahead = 12
/** A backup locks the log for as long as it reads. */
const attempts = { times: 4, schedule: Schedule.spaced("1 second") }
/** Rows deleted at once. */
const batch = 10_000

interface Maintained {
  /** Partitions that were made, and months that were dropped (`2026_11`). */
  readonly made: number
  readonly dropped: ReadonlyArray<string>
  readonly months_ahead: number
  /** Whether something was left to do because others, such as a backup, had the log locked. */
  readonly postponed: boolean
}

export class Partitions extends Context.Service<
  Partitions,
  {
    readonly maintain: Effect.Effect<
      Maintained,
      SharedRefusal<"bridge_persistence_error"> | DatabaseForbids | DatabaseUnsuitable
    >
  }
>()("service/audit/Partitions") {
  static readonly layer = Layer.effect(
    Partitions,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock
      const { audit } = yield* Settings
      const maintain = Effect.gen(function* () {
        const now = yield* clock.now
        return yield* dedicated(maintained(now, audit.retention))
      }).pipe(explainLasting, longPersistence)
      return { maintain }
    })
  )
}

const maintained = Effect.fnUntraced(function* (now: Date, retention: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  const store = Store.make(sql)
  let postponed = false
  const locked = <A, R>(work: Effect.Effect<A, SqlError.SqlError, R>) =>
    sql.withTransaction(Effect.andThen(store.lock, work)).pipe(
      Effect.retry({ ...attempts, while: isLocked }),
      Effect.asSome,
      Effect.catchIf(isLocked, () => Effect.sync(() => ((postponed = true), Option.none<A>())))
    )

  const until = dayOf(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead + 1)))
  const extended = yield* locked(store.extend(until))

  const dropped: Array<string> = []
  for (const { month } of yield* store.endedBy(dayOf(new Date(now.getTime() - Duration.toMillis(retention))))) {
    // The heads go first: if this ends midway, the chains are still verified from the oldest head that is left.
    for (const { scope, seq } of yield* store.lastLinks(month)) yield* inBatches(store.deleteHeads(scope, seq, batch))
    yield* inBatches(store.deleteCounts(`${endOf(month)}T00:00:00Z`, batch))
    const gone = yield* locked(Effect.andThen(store.drop(month), recordDrop(sql, month, now)))
    if (Option.isNone(gone)) break
    dropped.push(month)
  }
  const state = yield* store.state(now)
  const months_ahead = Option.match(state, { onNone: () => 0, onSome: (row) => row.months_ahead })
  const made = Option.match(extended, { onNone: () => 0, onSome: ([row]) => row?.made ?? 0 })
  return { made, dropped, months_ahead, postponed }
})

/** In the transaction of the drop: the log says itself what it lost. */
const recordDrop = (sql: SqlClient.SqlClient, month: string, at: Date) =>
  Effect.flatMap(traceAt(at), (trace) =>
    AuditStore.make(sql).insertDone(
      { action: "audit_log.month_dropped", project_id: null, actor: operator, subject: { month } },
      trace
    )
  )

const isLocked = ({ reason }: SqlError.SqlError) => reason._tag === "LockTimeoutError"

const inBatches = (statement: Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>) =>
  Effect.repeat(statement, { while: (deleted) => deleted.length === batch })

const dayOf = (at: Date) => at.toISOString().slice(0, 10)

/** The first day after a month, which is written `2026_11`. */
const endOf = (month: string) => dayOf(new Date(Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)))))

const sweep = "keep audit partitions"

/** Maintains at the start and every hour, if this account may. */
export const maintainForever = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { now } = yield* DatabaseClock
  const { maintain } = yield* Partitions
  yield* count(sweepFailures(sweep), 0)
  const once = Effect.gen(function* () {
    const state = yield* Store.make(sql).state(yield* now)
    if (Option.isSome(state) && state.value.isOwner) yield* maintain
  })
  const failed = (facts: object) =>
    Effect.logWarning("The partitions of the audit log could not be kept").pipe(
      Effect.annotateLogs({ ...facts }),
      Effect.andThen(count(sweepFailures(sweep)))
    )
  const survived = once.pipe(
    Effect.catch((error) => failed(SqlError.isSqlError(error) ? describe(error) : { reason: error._tag })),
    Effect.catchDefect((defect) => failed(withoutValues(Cause.die(defect))))
  )
  return yield* Effect.repeat(survived, Schedule.spaced("1 hour"))
})
