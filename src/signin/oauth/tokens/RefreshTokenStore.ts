/** The statements for refresh tokens. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Trace } from "../../../platform/sql/AuditRow.ts"
import { firstRow } from "../../../platform/sql/Rows.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import { type Audience, hasAudience, joined, inForce } from "../../../platform/sql/StandingGrant.ts"
import { audited } from "../grants/GrantStore.ts"
import { GrantState, insertAccess, Issued, type NewAccessToken, type NewRefreshToken } from "./TokenClauses.ts"

const RefreshState = Schema.Struct({ ...GrantState.fields, successor_salt: Schema.NullOr(Schema.Uint8Array) })
export type RefreshState = typeof RefreshState.Type

export interface PresentedRefresh {
  readonly token_hash: Uint8Array
  readonly client_id: string
  /** Null: all scopes of the grant. */
  readonly scopes: ReadonlyArray<Scope> | null
}

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /** Marks the refresh token as used and stores its successor, or does nothing and returns nothing. */
  const use = (
    presented: PresentedRefresh,
    access: NewAccessToken,
    successor: NewRefreshToken & { readonly salt: Uint8Array },
    now: Date,
    trace: Trace
  ) =>
    firstRow(Issued)(sql`
      with locked as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash, r.generation,
               c.scopes as client_scopes, coalesce(${presented.scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${joined(sql)}
         where r.token_hash = ${presented.token_hash}
           and r.used_at is null
           and r.expires_at > ${now}
           and g.client_id = ${presented.client_id}
           and coalesce(${presented.scopes}::text[], g.scopes) <@ g.scopes
           and 'refresh_token' = any (c.grant_types)
           and ${inForce(sql, now)}
           and ${hasAudience(sql, audience)}
           for no key update of g, r
      ), used as (
        update oauth_refresh_token r
           set used_at = ${now}, successor_salt = ${successor.salt}
          from locked
         where r.token_hash = locked.token_hash
      ), forgotten as (
        -- The presented token is in use now, so its own predecessor must not be replayed any more.
        update oauth_refresh_token r
           set successor_salt = null
          from locked
         where r.grant_id = locked.grant_id
           and r.generation = locked.generation - 1
      ), successor as (
        insert into oauth_refresh_token (token_hash, grant_id, generation, created_at, expires_at)
        select ${successor.token_hash}::bytea, grant_id, generation + 1, ${now}::timestamptz,
               least(${successor.expires_at}::timestamptz, grant_expires_at)
          from locked
      ), access as (${insertAccess(sql, access, now)}),
      audited as (${audited(sql, "oauth_grant.refreshed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  const find = (token_hash: Uint8Array, now: Date) =>
    firstRow(RefreshState)(sql`
      select g.grant_id, g.project_id, g.client_id, c.grant_types, g.scopes,
             ${inForce(sql, now)} and ${hasAudience(sql, audience)} as alive, r.expires_at, r.used_at, r.successor_salt
        from oauth_refresh_token r
        join oauth_grant g on g.grant_id = r.grant_id
        ${joined(sql)}
       where r.token_hash = ${token_hash}`)

  /** Issues another access token, if the refresh token was used after `since` and its successor is still unused. */
  const replay = (
    { scopes, since, token_hash }: Omit<PresentedRefresh, "client_id"> & { readonly since: Date },
    access: NewAccessToken,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Issued)(sql`
      with locked as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash,
               c.scopes as client_scopes, coalesce(${scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${joined(sql)}
         where r.token_hash = ${token_hash}
           and r.successor_salt is not null
           and r.used_at > ${since}
           and ${inForce(sql, now)}
           and ${hasAudience(sql, audience)}
           for no key update of g, r
      ), counted as (
        update oauth_refresh_token r
           set replays = r.replays + 1
          from locked
         where r.token_hash = locked.token_hash
      ), access as (${insertAccess(sql, access, now)}),
      audited as (${audited(sql, "oauth_grant.refresh_replayed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  return { use, find, replay }
}
