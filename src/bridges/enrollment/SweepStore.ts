/** The statements of the sweeper. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"

export const make = (sql: SqlClient.SqlClient) => {
  /** Challenges that ended unused, and used ones whose token has ended too. */
  const purgeChallenges = (before: Date, limit: number) =>
    rows(Schema.Struct({ challenge_id: Schema.String }))(sql`
      delete from enrollment_challenge
       where challenge_id in (
         select h.challenge_id
           from enrollment_challenge h
           left join bridge_token t on t.token_id = h.token_id
          where h.expires_at < ${before}
            and (h.token_id is null or t.ended_at < ${before})
          limit ${limit})
      returning challenge_id`)

  /** Tokens that nothing refers to any more. */
  const purgeTokens = (before: Date, limit: number) =>
    rows(Schema.Struct({ token_id: Schema.String }))(sql`
      delete from bridge_token
       where token_id in (
         select t.token_id
           from bridge_token t
          where t.ended_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.token_id = t.token_id)
            and not exists (select 1 from bridge_rotation r where t.token_id in (r.predecessor_id, r.successor_id))
          limit ${limit})
      returning token_id`)

  const purgeCredentials = (before: Date, limit: number) =>
    rows(Schema.Struct({ credential_id: Schema.String }))(sql`
      delete from bridge_enrollment_credential
       where credential_id in (
         select c.credential_id
           from bridge_enrollment_credential c
          where c.expires_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.credential_id = c.credential_id)
          limit ${limit})
      returning credential_id`)

  /** Names that were asked for and never proved. */
  const purgeReservations = (before: Date, limit: number) =>
    rows(Schema.Struct({ identity_id: Schema.String }))(sql`
      delete from bridge_identity
       where identity_id in (
         select i.identity_id
           from bridge_identity i
          where i.status = 'pending'
            and i.challenge_expires_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.identity_id = i.identity_id)
          limit ${limit}
            for update skip locked)
      returning identity_id`)

  return { purgeChallenges, purgeTokens, purgeCredentials, purgeReservations }
}
