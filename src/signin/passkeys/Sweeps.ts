/** Deletes passkeys 30 days after they were removed or their project token expired, and challenges after an hour. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"

const purgeKeys: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return sql`
    delete from person_key
     where person_key_id = any (array(
       (select person_key_id from person_key where removed_at < ${before} order by removed_at limit ${limit})
        union
       (select person_key_id from person_key where expires_at < ${before} order by expires_at limit ${limit})
        limit ${limit}))
    returning person_key_id`
}

const purgeChallenges: Sweep["run"] = (sql, now, limit) => sql`
  delete from person_key_challenge
   where challenge_hash = any (array(
     select challenge_hash
       from person_key_challenge
      where expires_at < ${new Date(now.getTime() - 3_600_000)}
      order by expires_at
      limit ${limit}))
  returning challenge_hash`

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "purge passkeys", run: purgeKeys },
  { name: "purge passkey challenges", run: purgeChallenges }
]
