/**
 * Delays a statement at will: it has taken its snapshot and waits, before its first lock, until others have finished. A
 * queue for a lock does the same now and then; here it happens every time.
 */
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"

const gate = 4711

/** For an instance: makes each of its locking statements wait at the gate. */
export const waitsAtGate = (statement: string) =>
  statement.replace(
    /(as materialized \(\s+select [^()]*?from )bridge_identity i\b/,
    `$1(select pg_advisory_xact_lock_shared(${gate})) gate cross join bridge_identity i`
  )

/** The same for a statement that takes no locks. */
export const readsAtGate = (statement: string) =>
  `select gated.* from (select pg_advisory_xact_lock_shared(${gate})) gate cross join lateral (${statement}) gated`

/** Starts `late`, runs `meanwhile` once it waits at the gate, then opens the gate. */
export const overtaken = <A, E, R, B, E2, R2>(late: Effect.Effect<A, E, R>, meanwhile: Effect.Effect<B, E2, R2>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const fiber = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(${gate})`
        const started = yield* Effect.forkDetach(late)
        yield* Effect.repeat(waiting, { until: (count) => count === 1 })
        yield* meanwhile
        return started
      })
    )
    return yield* Fiber.join(fiber)
  })

const waiting = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ count: number }>`
      select count(*)::int as count
        from pg_locks
       where locktype = 'advisory'
         and objid = ${gate}
         and not granted
         and database = (select oid from pg_database where datname = current_database())`,
    ([row]) => row!.count
  )
)
