/** Waits until sessions of the test database block on locks, so that races need no sleep. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const waiting = SqlClient.SqlClient.use(
  (sql) => sql<{ waiting: number }>`
    select count(*)::int as waiting
      from pg_stat_activity
     where datname = current_database()
       and wait_event_type = 'Lock'`
)

/** Polls PostgreSQL until some session waits for a lock. */
export const waitingForLock = Effect.repeat(waiting, { until: ([row]) => row!.waiting > 0 })

/** Polls until no session waits for a lock: each has got it or given up. */
export const noLockWaits = Effect.repeat(waiting, { until: ([row]) => row!.waiting === 0 })

const blocked = SqlClient.SqlClient.use(
  (sql) => sql<{ blocked: number }>`
    select count(*)::int as blocked
      from pg_locks
     where not granted
       and pg_backend_pid() = any (pg_blocking_pids(pid))`
)

/** Polls, in the transaction that holds the locks, until so many sessions wait for it. Other tests' sessions do not count. */
export const waitedForBy = (sessions: number) => Effect.repeat(blocked, { until: ([row]) => row!.blocked >= sessions })
