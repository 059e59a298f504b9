/** The statements of the operator's commands for project tokens. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { endable, liveGrants } from "../../platform/sql/access/StandingGrant.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { Uuid } from "../../wire/Ids.ts"
import { Role, Scope } from "../../wire/Scopes.ts"
import type { Page } from "../../platform/sql/Page.ts"

export const ProjectToken = Schema.Struct({
  token_id: Schema.String,
  label: Schema.NullOr(Schema.String),
  role: Role,
  scopes: Schema.Array(Scope),
  status: Schema.Literals(["active", "revoked", "expired"]),
  created_at: Schema.Date,
  expires_at: Schema.NullOr(Schema.Date),
  revoked_at: Schema.NullOr(Schema.Date),
  last_used_at: Schema.NullOr(Schema.Date),
  /** Whether the token opens the console and the consent page. */
  opens_console: Schema.Boolean,
  /** OAuth grants made with this token, which end with it; counted up to a thousand. */
  live_grants: Schema.Int
})

export const Issued = Schema.Struct({
  token_id: Schema.String,
  project_id: Schema.String,
  label: Schema.NullOr(Schema.String),
  role: Role,
  scopes: Schema.Array(Scope),
  opens_console: Schema.Boolean,
  expires_at: Schema.NullOr(Schema.Date)
})

type NewToken = typeof Issued.Type & { readonly token_hash: Uint8Array }

export const make = (sql: SqlClient.SqlClient) => {
  const findProject = (project_id: string) =>
    firstRow(Schema.Struct({ disabled: Schema.Boolean }))(sql`
      select disabled_at is not null as disabled
        from project
       where project_id = ${project_id}::uuid
         and deleted_at is null`)

  const findIssued = (token_hash: Uint8Array) =>
    firstRow(Issued)(sql`
      select token_id, project_id, label, role, scopes, opens_console, expires_at
        from project_token
       where token_hash = ${token_hash}`)

  /** Returns nothing if the token exists. Waits for a concurrent insert of the same token to commit. */
  const insert = (token: NewToken, now: Date) =>
    firstRow(Issued)(sql`
      insert into project_token (
        token_id, token_hash, project_id, label, role, scopes, opens_console, created_at, expires_at)
      values (${token.token_id}::uuid, ${token.token_hash}, ${token.project_id}::uuid, ${token.label}, ${token.role},
              ${token.scopes}::text[], ${token.opens_console}, ${now}, ${token.expires_at})
          on conflict do nothing
      returning token_id, project_id, label, role, scopes, opens_console, expires_at`)

  const list = (project_id: string, { after, limit }: Page, now: Date) =>
    rows(ProjectToken)(sql`
      select token_id, label, role, scopes, opens_console,
             case when revoked_at is not null then 'revoked'
                  when expires_at <= ${now} then 'expired'
                  else 'active' end as status,
             created_at, expires_at, revoked_at, last_used_at,
             ${liveGrants(sql, sql`g.project_token_id = t.token_id`, now)} as live_grants
        from project_token t
       where project_id = ${project_id}::uuid
         and ${after === undefined ? sql`true` : sql`token_id > ${after}::uuid`}
       order by token_id
       limit ${limit}`)

  /** What people call the tokens and grants among these actors. */
  const names = (project_id: string | undefined, actors: ReadonlyArray<string>) =>
    rows(Schema.Struct({ actor: Schema.String, name: Schema.String }))(sql`
      select 'project_token:' || token_id as actor, label as name
        from project_token
       where ${project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`}
         and token_id = any (${idsOf("project_token", actors)}::uuid[])
         and label is not null
       union all
      select 'oauth_grant:' || g.grant_id, c.name || coalesce(' (' || g.label || ')', '')
        from oauth_grant g
        join oauth_client c on c.client_id = g.client_id
       where ${project_id === undefined ? sql`true` : sql`g.project_id = ${project_id}::uuid`}
         and g.grant_id = any (${idsOf("oauth_grant", actors)}::uuid[])`)

  const revoke = (token_id: string, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.String, revoked_at: Schema.Date, first: Schema.Boolean }))(sql`
      with found as materialized (
        select token_id, revoked_at
          from project_token
         where token_id = ${token_id}::uuid
           for no key update
      )
      update project_token t
         set revoked_at = coalesce(t.revoked_at, ${now})
        from found
       where t.token_id = found.token_id
      returning t.project_id, t.revoked_at, found.revoked_at is null as first`)

  /**
   * Grants stop with their project token; this records the reason of those that somebody uses. Also returns the grants that earlier
   * calls ended.
   */
  const endGrants = (token_id: string, now: Date) =>
    rows(Schema.Struct({ grant_id: Schema.String }))(sql`
      with ended as (
        update oauth_grant
           set revoked_at = ${now}, end_reason = 'project_token_revoked'
         where grant_id = any (array(${endable(sql, sql`g.project_token_id = ${token_id}::uuid`, now)}))
           and revoked_at is null
        returning grant_id
      )
      select grant_id
        from ended
       union all
      select grant_id
        from oauth_grant
       where project_token_id = ${token_id}::uuid
         and end_reason = 'project_token_revoked'
       order by grant_id`)

  /** Passkeys stop with their project token; this lets the sweep find them. */
  const endKeys = (token_id: string, now: Date) => sql`
    update person_key
       set removed_at = ${now}
     where project_token_id = ${token_id}::uuid
       and removed_at is null`

  return { findProject, findIssued, insert, list, names, revoke, endGrants, endKeys }
}

const isUuid = Schema.is(Uuid)

/** The ids of the actors of one kind, which are named `kind:id`. An import can bring names of any form. */
const idsOf = (kind: string, actors: ReadonlyArray<string>) =>
  actors
    .filter((actor) => actor.startsWith(`${kind}:`))
    .map((actor) => actor.slice(kind.length + 1))
    .filter(isUuid)
