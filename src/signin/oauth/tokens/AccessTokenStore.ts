/**
 * What the statements that issue tokens have in common: the access token and the audit row of a `locked` grant.
 *
 * Every writer locks the grant first, then its code or refresh token. A statement's snapshot is older than the lock it
 * waits for, so all that a decision rests on is a column of one of these two locked rows: that a successor was used is
 * written on its predecessor, by forgetting the salt.
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { auditRow, type Trace } from "../../../platform/sql/AuditRow.ts"
import { Scope } from "../../../wire/Scopes.ts"

export const Scopes = Schema.Array(Scope)

/** What a token response is made of. */
export const Minted = Schema.Struct({ scopes: Scopes, expires_at: Schema.Date, refreshable: Schema.Boolean })
export type Minted = typeof Minted.Type

/** What a second read finds where nothing was issued. */
export const GrantState = Schema.Struct({
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  grant_types: Schema.Array(Schema.Literals(["authorization_code", "refresh_token"])),
  scopes: Scopes,
  /** Grant, client, project token and project, audience and instance: all as they have to be. */
  alive: Schema.Boolean,
  expires_at: Schema.Date,
  used_at: Schema.NullOr(Schema.Date)
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

/** From `locked`, which holds the grant, the scopes to give, and its client's allowed scopes. */
export const insertAccess = (sql: SqlClient.SqlClient, access: NewAccess, now: Date): Statement.Fragment => sql`
  insert into oauth_access_token (token_id, token_hash, grant_id, scopes, created_at, expires_at)
  select ${access.token_id}::uuid, ${access.token_hash}::bytea, grant_id, scopes, ${now}::timestamptz,
         least(case when 'mobile:devices' = any (client_scopes) then ${access.mobile_expires_at}::timestamptz
                    else ${access.expires_at}::timestamptz end, grant_expires_at)
    from locked
  returning grant_id, scopes, expires_at`

export const audited = (sql: SqlClient.SqlClient, action: string, from: string, trace: Trace): Statement.Fragment =>
  auditRow(sql, trace, {
    action,
    from,
    project: sql`project_id`,
    actor: sql`'oauth_client:' || client_id`,
    subject: sql`jsonb_build_object('grant_id', grant_id)`
  })
