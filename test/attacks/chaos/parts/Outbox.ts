/** The end of deliveries: a rest of a target and the wait for the next attempt, which may take an hour, end at once. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { awaiting } from "../harness.ts"

/** Until nothing waits to be sent. */
export const drained = (sql: SqlClient.SqlClient) => {
  const makeDue = Effect.all(
    [
      sql`update push_provider_state set paused_until = clock_timestamp() where paused_until > clock_timestamp()`,
      sql`update mobile_device set resting_until = null where resting_until is not null`,
      sql`
        update push_outbox set not_before = clock_timestamp()
         where state = 'pending' and not_before > clock_timestamp()`,
      sql`
        update push_outbox set lease_until = clock_timestamp()
         where state = 'leased' and lease_until > clock_timestamp() + interval '10 seconds'`
    ],
    { discard: true }
  )
  const waiting = sql<{ readonly n: number }>`
    select count(*)::int as n from push_outbox where state in ('pending', 'leased')`
  return awaiting(
    "an empty outbox",
    Effect.repeat(Effect.andThen(makeDue, Effect.delay(waiting, "200 millis")), { until: ([row]) => row!.n === 0 })
  )
}
