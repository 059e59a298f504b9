import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Asks PostgreSQL until somebody waits for the lock of another. */
export const waitingForLock = Effect.repeat(
  SqlClient.SqlClient.use(
    (sql) => sql<{ waiting: number }>`
      select count(*)::int as waiting
        from pg_stat_activity
       where datname = current_database()
         and wait_event_type = 'Lock'`
  ),
  { until: ([row]) => row!.waiting > 0 }
)
