import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const waiting = SqlClient.SqlClient.use(
  (sql) => sql<{ waiting: number }>`
    select count(*)::int as waiting
      from pg_stat_activity
     where datname = current_database()
       and wait_event_type = 'Lock'`
)

/** Asks PostgreSQL until somebody waits for the lock of another. */
export const waitingForLock = Effect.repeat(waiting, { until: ([row]) => row!.waiting > 0 })

/** Asks until nobody does: whoever waited got it, or gave up. */
export const nobodyWaits = Effect.repeat(waiting, { until: ([row]) => row!.waiting === 0 })
