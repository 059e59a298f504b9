/** Deletes authorization requests that were never decided, and tokens, grants and clients 30 days after their end. */
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"

const purgeRequests: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_request
   where request_id in (
     select request_id
       from oauth_request
      where expires_at < ${new Date(now.getTime() - 3_600_000)}
      limit ${limit})
  returning request_id`

const purgeAccessTokens: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_access_token
   where token_id in (
     select token_id
       from oauth_access_token
      where expires_at < ${purgeBefore(now)}
      limit ${limit})
  returning token_id`

const purgeGrants: Sweep["run"] = (sql, now, limit) => {
  const before = purgeBefore(now)
  return sql`
    with ended as materialized (
      select grant_id
        from oauth_grant
       where expires_at < ${before}
          or revoked_at < ${before}
          or (activated_at is null and created_at < ${before})
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
   where token_hash in (
     select token_hash
       from oauth_refresh_token
      where used_at < ${purgeBefore(now)}
      limit ${limit})
  returning token_hash`

/** Clients without a grant, except clients created by an operator and the disabled rows of documents' clients. */
const purgeClients: Sweep["run"] = (sql, now, limit) => sql`
  delete from oauth_client
   where client_id in (
     select c.client_id
       from oauth_client c
      where (c.kind = 'dynamic' or (c.kind = 'document' and c.disabled_at is null))
        and c.created_at < ${purgeBefore(now)}
        and not exists (select 1 from oauth_grant g where g.client_id = c.client_id)
      limit ${limit}
        for update skip locked)
  returning client_id`

/** The order matters: rows are deleted before the rows that they reference. */
export const sweeps: ReadonlyArray<Sweep> = [
  { name: "oauth requests", run: purgeRequests },
  { name: "oauth access tokens", run: purgeAccessTokens },
  { name: "oauth grants", run: purgeGrants },
  { name: "oauth refresh tokens", run: purgeRefreshTokens },
  { name: "oauth clients", run: purgeClients }
]
