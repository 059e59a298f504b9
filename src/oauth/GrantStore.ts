/**
 * The statements of grants: exchange, refresh, replay, revoke.
 *
 * Every writer locks the grant first, then its code or refresh token. A statement's snapshot is older than the lock it
 * waits for, so all that a decision rests on is a column of one of these two locked rows: that a successor was used is
 * written on its predecessor, by forgetting the salt.
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"
import { Scope } from "../wire/Scopes.ts"

const Scopes = Schema.Array(Scope)
const At = Schema.Date
const Bytes = Schema.Uint8Array
const GrantType = Schema.Literals(["authorization_code", "refresh_token"])

/** What a token response is made of. */
const Minted = Schema.Struct({ scopes: Scopes, expires_at: At, refreshable: Schema.Boolean })
export type Minted = typeof Minted.Type

const GrantState = {
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  grant_types: Schema.Array(GrantType),
  scopes: Scopes,
  /** Grant, client, project token and project, audience and instance: all as they have to be. */
  alive: Schema.Boolean,
  expires_at: At,
  used_at: Schema.NullOr(At)
}

export const CodeState = Schema.Struct({
  ...GrantState,
  code_challenge: Schema.String,
  redirect_uri: Schema.String
})
export type CodeState = typeof CodeState.Type

export const RefreshState = Schema.Struct({ ...GrantState, successor_salt: Schema.NullOr(Bytes) })
export type RefreshState = typeof RefreshState.Type

export const Grant = Schema.Struct({
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  client_name: Schema.String,
  project_token_id: Schema.String,
  scopes: Scopes,
  status: Schema.Literals(["waiting", "active", "revoked", "expired"]),
  created_at: At,
  expires_at: At,
  last_used_at: Schema.NullOr(At),
  revoked_at: Schema.NullOr(At),
  end_reason: Schema.NullOr(Schema.String)
})

export interface NewAccess {
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly expires_at: Date
  /** For clients allowed `mobile:devices`. */
  readonly mobile_expires_at: Date
}

export interface NewRefresh {
  readonly token_hash: Uint8Array
  readonly expires_at: Date
}

export interface Here {
  readonly resource: string
  /** Undefined: the one in the database. */
  readonly instance_id: string | undefined
}

export const make = (sql: SqlClient.SqlClient, here: Here) => {
  const alive = (now: Date) => sql`
    (g.revoked_at is null
     and g.expires_at > ${now}
     and g.resource = ${here.resource}
     and g.instance_id =
         coalesce(${here.instance_id ?? null}::text, (select instance_id::text from service_instance))
     and c.disabled_at is null
     and t.revoked_at is null
     and (t.expires_at is null or t.expires_at > ${now})
     and p.disabled_at is null)`

  const standing = sql`
    join oauth_client c on c.client_id = g.client_id
    join project_token t on t.token_id = g.project_token_id
    join project p on p.project_id = g.project_id`

  /** From `locked`, which holds the grant and its client's allowed scopes. */
  const insertAccess = (access: NewAccess, scopes: Statement.Fragment, now: Date) => sql`
    insert into oauth_access_token (token_id, token_hash, grant_id, scopes, created_at, expires_at)
    select ${access.token_id}::uuid, ${access.token_hash}::bytea, grant_id, ${scopes}, ${now}::timestamptz,
           least(case when 'mobile:devices' = any (client_scopes) then ${access.mobile_expires_at}::timestamptz
                      else ${access.expires_at}::timestamptz end, grant_expires_at)
      from locked
    returning grant_id, scopes, expires_at`

  const audited = (action: string, from: string, trace: Trace) =>
    auditRow(sql, trace, {
      action,
      from,
      project: sql`project_id`,
      actor: sql`'oauth_client:' || client_id`,
      subject: sql`jsonb_build_object('grant_id', grant_id)`
    })

  /** Spends the code and stores the first tokens, or does nothing and returns nothing. */
  const exchange = (
    code: {
      readonly code_hash: Uint8Array
      readonly client_id: string
      readonly code_challenge: string
      readonly redirect_uri: string | undefined
    },
    access: NewAccess,
    refresh: NewRefresh,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Minted)(sql`
      with locked as materialized (
        select g.grant_id, g.project_id, g.client_id, g.scopes, g.expires_at as grant_expires_at, k.code_hash,
               c.scopes as client_scopes, 'refresh_token' = any (c.grant_types) as refreshable
          from oauth_grant g
          join oauth_code k on k.grant_id = g.grant_id
          ${standing}
         where k.code_hash = ${code.code_hash}
           and k.used_at is null
           and k.expires_at > ${now}
           and k.code_challenge = ${code.code_challenge}
           and g.client_id = ${code.client_id}
           and g.redirect_uri = coalesce(${code.redirect_uri ?? null}::text, g.redirect_uri)
           and 'authorization_code' = any (c.grant_types)
           and ${alive(now)}
           for no key update of g, k
      ), spent as (
        update oauth_code k
           set used_at = ${now}
          from locked
         where k.code_hash = locked.code_hash
      ), activated as (
        update oauth_grant g
           set activated_at = ${now}, last_used_at = ${now}
          from locked
         where g.grant_id = locked.grant_id
      ), access as (${insertAccess(access, sql`scopes`, now)}), refresh as (
        insert into oauth_refresh_token (token_hash, grant_id, generation, created_at, expires_at)
        select ${refresh.token_hash}::bytea, grant_id, 0, ${now}::timestamptz,
               least(${refresh.expires_at}::timestamptz, grant_expires_at)
          from locked
         where refreshable
      ), audited as (${audited("oauth_grant.code_exchanged", "locked", trace)})
      select access.scopes, access.expires_at, locked.refreshable
        from access
       cross join locked`)

  const findCode = (code_hash: Uint8Array, now: Date) =>
    firstRow(CodeState)(sql`
      select g.grant_id, g.project_id, g.client_id, c.grant_types, g.scopes, ${alive(now)} as alive, k.expires_at,
             k.used_at, k.code_challenge, g.redirect_uri
        from oauth_code k
        join oauth_grant g on g.grant_id = k.grant_id
        ${standing}
       where k.code_hash = ${code_hash}`)

  /** Uses the refresh token and stores its successor, or does nothing and returns nothing. `scopes`: null for all. */
  const refresh = (
    presented: {
      readonly token_hash: Uint8Array
      readonly client_id: string
      readonly scopes: ReadonlyArray<Scope> | null
    },
    access: NewAccess,
    successor: NewRefresh & { readonly salt: Uint8Array },
    now: Date,
    trace: Trace
  ) =>
    firstRow(Minted)(sql`
      with locked as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash, r.generation,
               c.scopes as client_scopes, coalesce(${presented.scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${standing}
         where r.token_hash = ${presented.token_hash}
           and r.used_at is null
           and r.expires_at > ${now}
           and g.client_id = ${presented.client_id}
           and coalesce(${presented.scopes}::text[], g.scopes) <@ g.scopes
           and 'refresh_token' = any (c.grant_types)
           and ${alive(now)}
           for no key update of g, r
      ), used as (
        update oauth_refresh_token r
           set used_at = ${now}, successor_salt = ${successor.salt}
          from locked
         where r.token_hash = locked.token_hash
      ), forgotten as (
        -- This token was somebody's successor, and it is in use now: its predecessor answers no replay any more.
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
      ), access as (${insertAccess(access, sql`scopes`, now)}),
      audited as (${audited("oauth_grant.refreshed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  const findRefresh = (token_hash: Uint8Array, now: Date) =>
    firstRow(RefreshState)(sql`
      select g.grant_id, g.project_id, g.client_id, c.grant_types, g.scopes, ${alive(now)} as alive, r.expires_at,
             r.used_at, r.successor_salt
        from oauth_refresh_token r
        join oauth_grant g on g.grant_id = r.grant_id
        ${standing}
       where r.token_hash = ${token_hash}`)

  /** A further access token for a refresh token that was used after `since` and whose successor was not used yet. */
  const replay = (
    presented: { readonly token_hash: Uint8Array; readonly scopes: ReadonlyArray<Scope> | null; readonly since: Date },
    access: NewAccess,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Minted)(sql`
      with locked as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash,
               c.scopes as client_scopes, coalesce(${presented.scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${standing}
         where r.token_hash = ${presented.token_hash}
           and r.successor_salt is not null
           and r.used_at > ${presented.since}
           and ${alive(now)}
           for no key update of g, r
      ), counted as (
        update oauth_refresh_token r
           set replays = r.replays + 1
          from locked
         where r.token_hash = locked.token_hash
      ), access as (${insertAccess(access, sql`scopes`, now)}),
      audited as (${audited("oauth_grant.refresh_replayed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  /** Ends the grant and with it every token of the family. */
  const end = (grant_id: string, end_reason: string, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.String, revoked_at: At, first: Schema.Boolean }))(sql`
      with found as materialized (
        select grant_id, revoked_at
          from oauth_grant
         where grant_id = ${grant_id}::uuid
           for no key update
      )
      update oauth_grant g
         set end_reason = case when g.revoked_at is null then ${end_reason} else g.end_reason end,
             revoked_at = coalesce(g.revoked_at, ${now})
        from found
       where g.grant_id = found.grant_id
      returning g.project_id, g.revoked_at, found.revoked_at is null as first`)

  const clientExists = (client_id: string) =>
    rows(Schema.Struct({ client_id: Schema.String }))(sql`
      select client_id
        from oauth_client
       where client_id = ${client_id}
         and disabled_at is null`)

  /** RFC 7009: only for the client that it was issued to. */
  const revokeAccess = (token_hash: Uint8Array, client_id: string, now: Date, trace: Trace) => sql`
    with revoked as (
      update oauth_access_token a
         set revoked_at = ${now}
        from oauth_grant g
       where g.grant_id = a.grant_id
         and a.token_hash = ${token_hash}
         and a.revoked_at is null
         and g.client_id = ${client_id}
      returning g.grant_id, g.project_id, g.client_id
    )
    ${audited("oauth_access_token.revoked", "revoked", trace)}`

  const revokeFamily = (token_hash: Uint8Array, client_id: string, now: Date, trace: Trace) => sql`
    with revoked as (
      update oauth_grant g
         set revoked_at = ${now}, end_reason = 'revoked_by_client'
        from oauth_refresh_token r
       where r.grant_id = g.grant_id
         and r.token_hash = ${token_hash}
         and g.revoked_at is null
         and g.client_id = ${client_id}
      returning g.grant_id, g.project_id, g.client_id
    )
    ${audited("oauth_grant.revoked", "revoked", trace)}`

  const projectExists = (project_id: string) =>
    rows(Schema.Struct({ project_id: Schema.String }))(sql`
      select project_id
        from project
       where project_id = ${project_id}::uuid`)

  const list = (project_id: string, now: Date) =>
    rows(Grant)(sql`
      select g.grant_id, g.project_id, g.client_id, c.name as client_name, g.project_token_id, g.scopes,
             case when g.revoked_at is not null then 'revoked'
                  when g.expires_at <= ${now} then 'expired'
                  when g.activated_at is null then 'waiting'
                  else 'active' end as status,
             g.created_at, g.expires_at, g.last_used_at, g.revoked_at, g.end_reason
        from oauth_grant g
        join oauth_client c on c.client_id = g.client_id
       where g.project_id = ${project_id}::uuid
       order by g.created_at, g.grant_id`)

  return {
    exchange,
    findCode,
    refresh,
    findRefresh,
    replay,
    end,
    clientExists,
    revokeAccess,
    revokeFamily,
    projectExists,
    list
  }
}
