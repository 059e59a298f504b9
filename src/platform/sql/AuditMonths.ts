/** How far ahead the audit log has partitions. */
import type { SqlClient } from "effect/sql"

/** Whole months after that of `now` for which there are partitions, as an expression. */
export const monthsAhead = (sql: SqlClient.SqlClient, now: Date) => sql`
  (select (extract(year from last) * 12 + extract(month from last)
           - extract(year from month) * 12 - extract(month from month) - 1)::int
     from (select audit_log_end() as last, ${now}::timestamptz at time zone 'UTC' as month) m)`
