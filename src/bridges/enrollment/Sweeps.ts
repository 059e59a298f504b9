/**
 * The sweeps of enrollment: they delete rows thirty days after their end.
 *
 * The order matters: a row can go once nothing refers to it, so challenges go before tokens, credentials and identities.
 */
import { Schema } from "effect"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"

/** Challenges that expired unused, and used challenges whose token has ended. */
const purgeChallenges: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return rows(Schema.Struct({ challenge_id: Schema.String }))(sql`
    delete from enrollment_challenge
     where challenge_id in (
       select h.challenge_id
         from enrollment_challenge h
         left join bridge_token t on t.token_id = h.token_id
        where h.expires_at < ${before}
          and (h.token_id is null or t.ended_at < ${before})
        limit ${limit})
    returning challenge_id`)
}

/** Ended tokens that no challenge and no rotation refers to. */
const purgeTokens: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ token_id: Schema.String }))(sql`
    delete from bridge_token
     where token_id in (
       select t.token_id
         from bridge_token t
        where t.ended_at < ${purgeBefore(now)}
          and not exists (select 1 from enrollment_challenge h where h.token_id = t.token_id)
          and not exists (select 1 from bridge_rotation r where t.token_id in (r.predecessor_id, r.successor_id))
        limit ${limit})
    returning token_id`)

const purgeCredentials: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ credential_id: Schema.String }))(sql`
    delete from bridge_enrollment_credential
     where credential_id in (
       select c.credential_id
         from bridge_enrollment_credential c
        where c.expires_at < ${purgeBefore(now)}
          and not exists (select 1 from enrollment_challenge h where h.credential_id = c.credential_id)
        limit ${limit})
    returning credential_id`)

/** Identities that never got past a challenge: this frees their `bridge_id`. */
const purgeReservations: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ identity_id: Schema.String }))(sql`
    delete from bridge_identity
     where identity_id in (
       select i.identity_id
         from bridge_identity i
        where i.status = 'pending'
          and i.challenge_expires_at < ${purgeBefore(now)}
          and not exists (select 1 from enrollment_challenge h where h.identity_id = i.identity_id)
        limit ${limit}
          for update skip locked)
    returning identity_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "purge challenges", run: purgeChallenges },
  { name: "purge tokens", run: purgeTokens },
  { name: "purge credentials", run: purgeCredentials },
  { name: "purge reservations", run: purgeReservations }
]
