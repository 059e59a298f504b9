/**
 * The clauses that decide whether a console session is open (decisions.md, Sessions of the console). Finding, listing and
 * counting share them, so that none counts a session that no longer opens a page. The session's alias is `s`.
 */
import { Duration } from "effect"
import type { SqlClient } from "effect/sql"
import { tokenInForce } from "./StandingToken.ts"

/** A session that nobody used for this long has ended. */
const idle = Duration.hours(12)

/** Joins the session's project token `t`, project `p` and passkey `k`; an operator's session has none of them. */
export const sessionJoined = (sql: SqlClient.SqlClient) => sql`
  left join project_token t on t.token_id = s.project_token_id
  left join project p on p.project_id = s.project_id
  left join person_key k on k.person_key_id = s.person_key_id`

/** The session has neither ended nor expired nor been idle for too long, and what it came from is in force. */
export const isOpen = (sql: SqlClient.SqlClient, now: Date) => sql`
  (s.ended_at is null
   and s.expires_at > ${now}
   and s.last_used_at > ${new Date(now.getTime() - Duration.toMillis(idle))}
   and ${tokenInForce(sql, now)}
   and (s.person_key_id is null or ${isUsable(sql)}))`

/** The passkey `k` is there, and neither switched off nor removed. Whether its token is in force is another condition. */
export const isUsable = (sql: SqlClient.SqlClient) => sql`
  (k.person_key_id is not null and k.disabled_at is null and k.removed_at is null)`

export const openSessions = (sql: SqlClient.SqlClient, project_id: string, now: Date) => sql`
  select count(*)::int as open
    from console_session s
    ${sessionJoined(sql)}
   where s.project_id = ${project_id}::uuid
     and ${isOpen(sql, now)}`
