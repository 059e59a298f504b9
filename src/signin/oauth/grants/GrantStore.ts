/** The statements of grants: how they end, and how the operator sees them. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Trace } from "../../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import { audited, Scopes } from "../tokens/AccessTokenStore.ts"

const At = Schema.Date

export const Grant = Schema.Struct({
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  client_name: Schema.String,
  project_token_id: Schema.String,
  scopes: Scopes,
  /** waiting: the client has not come for its code yet. */
  status: Schema.Literals(["waiting", "active", "revoked", "expired"]),
  created_at: At,
  expires_at: At,
  last_used_at: Schema.NullOr(At),
  revoked_at: Schema.NullOr(At),
  end_reason: Schema.NullOr(Schema.String)
})

export const make = (sql: SqlClient.SqlClient) => {
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
    ${audited(sql, "oauth_access_token.revoked", "revoked", trace)}`

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
    ${audited(sql, "oauth_grant.revoked", "revoked", trace)}`

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
                  when g.activated_at is not null then 'active'
                  when exists (select 1 from oauth_code k where k.grant_id = g.grant_id and k.expires_at > ${now})
                  then 'waiting'
                  else 'expired' end as status,
             g.created_at, g.expires_at, g.last_used_at, g.revoked_at, g.end_reason
        from oauth_grant g
        join oauth_client c on c.client_id = g.client_id
       where g.project_id = ${project_id}::uuid
       order by g.created_at, g.grant_id`)

  return { end, revokeAccess, revokeFamily, projectExists, list }
}
