/**
 * The sweeps of enrollment: they delete salts that no retry needs any more, and rows thirty days after their end.
 *
 * The order of the latter matters: a row can go once nothing refers to it, so challenges go before tokens, credentials and identities.
 * Rows that something still refers to would be read again and again, so a batch looks at the oldest ten thousand at most;
 * what refers to them goes in the same order. `offset 0` makes the planner look up each row in an index.
 */
import { Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { rows } from "../../platform/sql/Rows.ts"

/**
 * The salts of tokens whose proof cannot be replayed any more. A pending successor keeps its salt until its rotation ends;
 * a confirm deletes it at once.
 */
const forgetSalts: Sweep<Settings>["run"] = (sql, now, limit) =>
  Effect.flatMap(Settings, ({ bridge }) =>
    rows(Schema.Struct({ token_id: Schema.String }))(sql`
      with due as materialized (
        select t.token_id
          from bridge_identity i
          join bridge_token t on t.identity_id = i.identity_id
         where t.derivation_salt is not null
           and t.state <> 'pending'
           and t.created_at <= ${new Date(now.getTime() - Duration.toMillis(bridge.proofReplay))}
         order by t.created_at
         limit ${limit}
           for no key update of i, t skip locked
      )
      update bridge_token t
         set derivation_salt = null
        from due
       where t.token_id = due.token_id
      returning t.token_id`)
  )

/** Challenges that expired unused, and used challenges whose token has ended. */
const purgeChallenges: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return rows(Schema.Struct({ challenge_id: Schema.String }))(sql`
    with unused as (
      select challenge_id
        from enrollment_challenge
       where token_id is null
         and expires_at < ${before}
       order by expires_at
       limit ${limit}
    ), used as (
      select h.challenge_id
        from (${oldestTokens(sql, before, limit)}) t
       cross join lateral (
         select challenge_id
           from enrollment_challenge
          where token_id = t.token_id
            and expires_at < ${before}
         offset 0) h
       limit ${limit}
    )
    delete from enrollment_challenge
     where challenge_id = any (array(
       select challenge_id from used
        union all
       select challenge_id from unused
        limit ${limit}))
    returning challenge_id`)
}

/** Ended tokens that no challenge and no rotation refers to. */
const purgeTokens: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ token_id: Schema.String }))(sql`
    delete from bridge_token
     where token_id = any (array(
       select t.token_id
         from (${oldestTokens(sql, purgeBefore(now), limit)}) t
        where not exists (select 1 from enrollment_challenge h where h.token_id = t.token_id offset 0)
          and not exists (select 1 from bridge_rotation r where r.predecessor_id = t.token_id offset 0)
          and not exists (select 1 from bridge_rotation r where r.successor_id = t.token_id offset 0)
        limit ${limit}))
    returning token_id`)

const oldestTokens = (sql: SqlClient.SqlClient, before: Date, limit: number) => sql`
  select token_id
    from bridge_token
   where ended_at < ${before}
   order by ended_at
   limit ${limit * 10}`

const purgeCredentials: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ credential_id: Schema.String }))(sql`
    delete from bridge_enrollment_credential
     where credential_id = any (array(
       select c.credential_id
         from (select credential_id
                 from bridge_enrollment_credential
                where expires_at < ${purgeBefore(now)}
                order by expires_at
                limit ${limit * 10}) c
        where not exists (select 1 from enrollment_challenge h where h.credential_id = c.credential_id offset 0)
        limit ${limit}))
    returning credential_id`)

/** Identities that never got past a challenge: this frees their `bridge_id`. */
const purgeReservations: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return rows(Schema.Struct({ identity_id: Schema.String }))(sql`
    delete from bridge_identity
     where identity_id = any (array(
       select identity_id
         from bridge_identity
        where identity_id = any (array(
                select i.identity_id
                  from (select identity_id
                          from bridge_identity
                         where status = 'pending'
                           and challenge_expires_at < ${before}
                         order by challenge_expires_at
                         limit ${limit * 10}) i
                 where not exists (
                         select 1 from enrollment_challenge h where h.identity_id = i.identity_id offset 0)
                 limit ${limit}))
          and status = 'pending'
          and challenge_expires_at < ${before}
          for update skip locked))
    returning identity_id`)
}

export const sweeps: ReadonlyArray<Sweep<Settings>> = [
  { name: "forget token salts", run: forgetSalts },
  { name: "purge challenges", run: purgeChallenges },
  { name: "purge tokens", run: purgeTokens },
  { name: "purge credentials", run: purgeCredentials },
  { name: "purge reservations", run: purgeReservations }
]
