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
