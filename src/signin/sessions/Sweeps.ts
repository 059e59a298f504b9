/** Deletes console sessions 30 days after they expired, and the links that opened them after an hour. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"

const purgeSessions: Sweep["run"] = (sql, now, limit) => sql`
  delete from console_session
   where session_id = any (array(
     select session_id
       from console_session
      where expires_at < ${purgeBefore(now)}
      order by expires_at
      limit ${limit}))
  returning session_id`

const purgeLinks: Sweep["run"] = (sql, now, limit) => sql`
  delete from console_link
   where code_hash = any (array(
     select code_hash
       from console_link
      where expires_at < ${new Date(now.getTime() - 3_600_000)}
      order by expires_at
      limit ${limit}))
  returning code_hash`

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "purge console sessions", run: purgeSessions },
  { name: "purge console links", run: purgeLinks }
]
