/**
 * Ending the open challenges of credentials, in the order in which enrollment locks: credentials, identities, challenges.
 * The caller has locked the credentials. Used when an operator revokes one, and when a reference is withdrawn.
 */
import type { SqlClient } from "effect/sql"

/** Locks the identities that open challenges reserve: a proof that has begun ends before this returns. */
export const lockReserved = (sql: SqlClient.SqlClient, credential_ids: ReadonlyArray<string>) => sql`
  select i.identity_id
    from bridge_identity i
   where i.identity_id in (
     select identity_id
       from enrollment_challenge
      where credential_id = any (${credential_ids}::uuid[])
        and consumed_at is null)
   order by i.identity_id
     for no key update`

/** Expires the open challenges. A pending identity stays reserved for other challenges it may have. */
export const expireChallenges = (sql: SqlClient.SqlClient, credential_ids: ReadonlyArray<string>, now: Date) => sql`
  with expired as (
    update enrollment_challenge
       set expires_at = ${now}
     where credential_id = any (${credential_ids}::uuid[])
       and consumed_at is null
       and expires_at > ${now}
    returning challenge_id, identity_id
  )
  update bridge_identity i
     set challenge_expires_at = coalesce((
           select max(h.expires_at)
             from enrollment_challenge h
            where h.identity_id = i.identity_id
              and h.consumed_at is null
              and h.challenge_id not in (select challenge_id from expired)), ${now})
    from expired
   where i.identity_id = expired.identity_id
     and i.status = 'pending'`
