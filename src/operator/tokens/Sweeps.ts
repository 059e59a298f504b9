/** Deletes operator tokens 30 days after they expired. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"

const purgeTokens: Sweep["run"] = (sql, now, limit) => sql`
  delete from operator_token
   where token_id = any (array(
     select token_id
       from operator_token
      where expires_at < ${purgeBefore(now)}
      order by expires_at
      limit ${limit}))
  returning token_id`

export const sweeps: ReadonlyArray<Sweep> = [{ name: "purge operator tokens", run: purgeTokens }]
