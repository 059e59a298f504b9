import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const waiting = SqlClient.SqlClient.use(
  (sql) => sql<{ waiting: number }>`
    select count(*)::int as waiting
      from pg_stat_activity
     where datname = current_database()
       and wait_event_type = 'Lock'`
)

/** Polls PostgreSQL until a session waits for a lock. */
export const waitingForLock = Effect.repeat(waiting, { until: ([row]) => row!.waiting > 0 })

/** Polls until no session waits for a lock. */
export const nobodyWaits = Effect.repeat(waiting, { until: ([row]) => row!.waiting === 0 })
