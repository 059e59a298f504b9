/** The statements that end and list grants. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { auditRow, type Trace, type TraceColumns } from "../../../platform/sql/AuditRow.ts"
import { projectExists } from "../../../platform/sql/ProjectExists.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import { inForce, isLive, joined } from "../../../platform/sql/access/StandingGrant.ts"
import { Scope } from "../../../wire/Scopes.ts"
import type { Page } from "../../../platform/sql/Page.ts"

const At = Schema.Date

export const Grant = Schema.Struct({
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  client_name: Schema.String,
  /** What the person called the sign-in; null if nothing. */
  label: Schema.NullOr(Schema.String),
  project_token_id: Schema.String,
  scopes: Schema.Array(Scope),
  /** `waiting`: the client has not exchanged its code yet. */
  status: Schema.Literals(["waiting", "active", "revoked", "expired"]),
  created_at: At,
  expires_at: At,
  last_used_at: Schema.NullOr(At),
  revoked_at: Schema.NullOr(At),
  end_reason: Schema.NullOr(Schema.String)
})

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Ends the grant and with it all its tokens. `first`: this statement ended it; false if it had ended before.
   * `project_token_id`: only a grant that was allowed with this token.
   */
  const end = (grant_id: string, end_reason: string, now: Date, project_token_id?: string) =>
    firstRow(Schema.Struct({ project_id: Schema.String, revoked_at: At, first: Schema.Boolean }))(sql`
      with found as materialized (
        select grant_id, revoked_at
          from oauth_grant
         where grant_id = ${grant_id}::uuid
           and ${project_token_id === undefined ? sql`true` : sql`project_token_id = ${project_token_id}::uuid`}
           for no key update
      )
      update oauth_grant g
         set end_reason = case when g.revoked_at is null then ${end_reason} else g.end_reason end,
             revoked_at = coalesce(g.revoked_at, ${now})
        from found
       where g.grant_id = found.grant_id
      returning g.project_id, g.revoked_at, found.revoked_at is null as first`)

  /**
   * Ends what a project token has beyond `most` grants that clients use, a hundred at a time: those that were used least
   * recently.
   */
  const endBeyond = (project_token_id: string, most: number, now: Date) =>
    rows(Schema.Struct({ grant_id: Schema.String }))(sql`
      update oauth_grant
         set revoked_at = ${now}, end_reason = 'too_many_grants'
       -- Unless another statement has ended it meanwhile.
       where revoked_at is null
         and grant_id = any (array(
           select grant_id
             from (select g.grant_id,
                          row_number() over (order by g.last_used_at desc nulls last, g.grant_id desc) as place
                     from oauth_grant g
                    where g.project_token_id = ${project_token_id}::uuid
                      and ${isLive(sql, now)}) as ranked
            where place > ${most}
            order by place desc
            limit 100))
      returning grant_id`)

  /** Revokes an access token of this client only (RFC 7009 2.1). */
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

  /** Ends the grant of a refresh token of this client only (RFC 7009 2.1). */
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

  /** The client may still come for its code. */
  const hasCode = (now: Date) => sql`
    exists (select 1 from oauth_code k where k.grant_id = g.grant_id and k.expires_at > ${now})`

  const columns = (now: Date) => sql`
    g.grant_id, g.project_id, g.client_id, c.name as client_name, g.label, g.project_token_id, g.scopes,
    case when g.revoked_at is not null then 'revoked'
         when g.expires_at <= ${now} then 'expired'
         when g.activated_at is not null then 'active'
         when ${hasCode(now)} then 'waiting'
         else 'expired' end as status,
    g.created_at, g.expires_at, g.last_used_at, g.revoked_at, g.end_reason`

  const list = (project_id: string | undefined, { after, limit }: Page, now: Date) =>
    rows(Grant)(sql`
      select ${columns(now)}
        from oauth_grant g
        join oauth_client c on c.client_id = g.client_id
       where ${project_id === undefined ? sql`true` : sql`g.project_id = ${project_id}::uuid`}
         and ${after === undefined ? sql`true` : sql`g.grant_id > ${after}::uuid`}
       order by g.grant_id
       limit ${limit}`)

  /** What was allowed with a project token and is in force, newest first. */
  const own = (project_token_id: string, { after, limit }: Page, now: Date) =>
    rows(Grant)(sql`
      select ${columns(now)}
        from oauth_grant g
        ${joined(sql)}
       where g.project_token_id = ${project_token_id}::uuid
         and ${inForce(sql, now)}
         and (g.activated_at is not null or ${hasCode(now)})
         and ${after === undefined ? sql`true` : sql`g.grant_id < ${after}::uuid`}
       order by g.grant_id desc
       limit ${limit}`)

  return {
    end,
    endBeyond,
    revokeAccess,
    revokeFamily,
    projectExists: (project_id: string) => projectExists(sql, project_id),
    list,
    own
  }
}

/** The audit row of a grant's client, as a clause. The rows of clause `from` hold grant_id, project_id and client_id. */
export const audited = (
  sql: SqlClient.SqlClient,
  action: string,
  from: string,
  trace: Trace | TraceColumns
): Statement.Fragment =>
  auditRow(sql, trace, {
    action,
    from,
    project: sql`project_id`,
    actor: sql`'oauth_client:' || client_id`,
    subject: sql`jsonb_build_object('grant_id', grant_id)`
  })
