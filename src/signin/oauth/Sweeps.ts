/** What the sweeper deletes of OAuth: pages nobody answered, and tokens and grants 30 days after their end. */
import type { SqlClient } from "effect/sql"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"

type Purge = (sql: SqlClient.SqlClient, before: Date, limit: number, now: Date) => ReturnType<Sweep["run"]>

const sweep = (name: string, purge: Purge): Sweep => ({
  name,
  run: (sql, now, limit) => purge(sql, purgeBefore(now), limit, now)
})

/** In this order: a row goes before the row that it refers to. */
export const sweeps: ReadonlyArray<Sweep> = [
  sweep(
    "oauth requests",
    (sql, _before, limit, now) => sql`
      delete from oauth_request
       where request_id in (
         select request_id
           from oauth_request
          where expires_at < ${new Date(now.getTime() - 3_600_000)}
          limit ${limit})
      returning request_id`
  ),
  sweep(
    "oauth access tokens",
    (sql, before, limit) => sql`
      delete from oauth_access_token
       where token_id in (
         select token_id
           from oauth_access_token
          where expires_at < ${before}
          limit ${limit})
      returning token_id`
  ),
  sweep(
    "oauth grants",
    (sql, before, limit) => sql`
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
  ),
  sweep(
    "oauth refresh tokens",
    (sql, before, limit) => sql`
      delete from oauth_refresh_token
       where token_hash in (
         select token_hash
           from oauth_refresh_token
          where used_at < ${before}
          limit ${limit})
      returning token_hash`
  ),
  sweep(
    "oauth clients",
    (sql, before, limit) => sql`
      delete from oauth_client
       where client_id in (
         select c.client_id
           from oauth_client c
          where (c.kind = 'dynamic' or (c.kind = 'document' and c.disabled_at is null))
            and c.created_at < ${before}
            and not exists (select 1 from oauth_grant g where g.client_id = c.client_id)
          limit ${limit}
            for update skip locked)
      returning client_id`
  )
]
