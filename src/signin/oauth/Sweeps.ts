/**
 * Deletes the salts of used refresh tokens after the grace period, authorization requests that were never decided, access
 * tokens of Bridges at their end, and tokens, grants and clients 30 days after theirs.
 */
import { Duration, Effect } from "effect"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { Settings } from "../../platform/settings/Settings.ts"

const forgetSalts: Sweep<Settings>["run"] = (sql, now, limit) =>
  Effect.flatMap(
    Settings,
    ({ oauth }) => sql`
    update oauth_refresh_token
       set successor_salt = null
     where token_hash = any (array(
       select token_hash
         from oauth_refresh_token
        where successor_salt is not null
          and used_at <= ${new Date(now.getTime() - Duration.toMillis(oauth.refreshGrace))}
        order by used_at
        limit ${limit}
          for no key update skip locked))
    returning token_hash`
  )

const purgeRequests: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_request
   where request_id = any (array(
     select request_id
       from oauth_request
      where expires_at < ${new Date(now.getTime() - 3_600_000)}
      order by expires_at
      limit ${limit}))
  returning request_id`

/** After a day: nothing asks for an expired one, and a client that refreshes all the time makes very many. */
const purgeAccessTokens: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_access_token
   where token_id = any (array(
     select token_id
       from oauth_access_token
      where expires_at < ${new Date(now.getTime() - 86_400_000)}
      order by expires_at
      limit ${limit}))
  returning token_id`

const purgeBridgeTokens: Sweep["run"] = (sql, now, limit) => sql`
  delete from bridge_access_token
   where token_id = any (array(
     select token_id
       from bridge_access_token
      where expires_at < ${now}
      order by expires_at
      limit ${limit}))
  returning token_id`

const purgeGrants: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return sql`
    with ended as materialized (
      select grant_id
        from oauth_grant
       where grant_id = any (array(
         (select grant_id from oauth_grant where expires_at < ${before} order by expires_at limit ${limit})
          union
         (select grant_id from oauth_grant where revoked_at < ${before} order by revoked_at limit ${limit})
          union
         (select grant_id
            from oauth_grant
           where activated_at is null
             and created_at < ${before}
           order by created_at
           limit ${limit})))
       limit ${limit}
         for update skip locked
    ), requests as (
      delete from oauth_request r using ended where r.grant_id = ended.grant_id
    ), codes as (
      delete from oauth_code k using ended where k.grant_id = ended.grant_id
    ), access as (
      delete from oauth_access_token a using ended where a.grant_id = ended.grant_id
    ), refresh as (
      delete from oauth_refresh_token r using ended where r.grant_id = ended.grant_id
    )
    delete from oauth_grant g using ended where g.grant_id = ended.grant_id
    returning g.grant_id`
}

const purgeRefreshTokens: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_refresh_token
   where token_hash = any (array(
     select token_hash
       from oauth_refresh_token
      where used_at < ${purgeBefore(now)}
      order by used_at
      limit ${limit}))
  returning token_hash`

/**
 * Clients without a grant, except clients created by an operator and the disabled rows of documents' clients. A client
 * with a grant is looked at again 30 days later.
 */
const purgeClients: Sweep["run"] = (sql, now, limit) => sql`
  with due as materialized (
    select c.client_id
      from oauth_client c
     where (c.kind = 'dynamic' or (c.kind = 'document' and c.disabled_at is null))
       and coalesce(c.in_use_at, c.created_at) < ${purgeBefore(now)}
     order by coalesce(c.in_use_at, c.created_at)
     limit ${limit}
       for update skip locked
  ), used as (
    update oauth_client c
       set in_use_at = ${now}
      from due
     where c.client_id = due.client_id
       and exists (select 1 from oauth_grant g where g.client_id = due.client_id offset 0)
    returning c.client_id
  ), unused as (
    delete from oauth_client c
     using due
     where c.client_id = due.client_id
       and not exists (select 1 from oauth_grant g where g.client_id = due.client_id offset 0)
    returning c.client_id
  )
  select client_id from used
   union all
  select client_id from unused`

/** The order matters: rows are deleted before the rows that they reference. */
export const sweeps: ReadonlyArray<Sweep<Settings>> = [
  { name: "oauth refresh salts", run: forgetSalts },
  { name: "oauth requests", run: purgeRequests },
  { name: "oauth access tokens", run: purgeAccessTokens },
  { name: "access tokens of bridges", run: purgeBridgeTokens },
  { name: "oauth grants", run: purgeGrants },
  { name: "oauth refresh tokens", run: purgeRefreshTokens },
  { name: "oauth clients", run: purgeClients }
]
