/** The clause that decides whether a project token is in force (spec 5.3), and with it whatever it opened or allowed. */
import type { SqlClient, Statement } from "effect/sql"

/** The project token `t` has neither ended nor expired, and its project `p` is not disabled. */
export const tokenInForce = (sql: SqlClient.SqlClient, now: Date | Statement.Fragment) => sql`
  (t.revoked_at is null
   and (t.expires_at is null or t.expires_at > ${now})
   and p.disabled_at is null)`
