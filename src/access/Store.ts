/** Who a credential is, in one statement each. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow } from "../wire/Rows.ts"
import { Role, Scope } from "../wire/Scopes.ts"

const Identified = Schema.Struct({
  project_id: Schema.String,
  project_name: Schema.String,
  role: Role,
  scopes: Schema.Array(Scope),
  credential_id: Schema.String,
  subject: Schema.String,
  client_id: Schema.NullOr(Schema.String),
  grant_id: Schema.NullOr(Schema.String),
  instance_id: Schema.String,
  last_used_at: Schema.NullOr(Schema.Date)
})

/** What a token is compared with besides the time. */
export interface Here {
  readonly resource: string
  /** Undefined: the one in the database. */
  readonly instance_id: string | undefined
}

export const make = (sql: SqlClient.SqlClient, here: Here) => {
  const instance = sql`coalesce(${here.instance_id ?? null}::text, (select instance_id::text from service_instance))`

  const findProjectToken = (token_hash: Uint8Array, now: Date) =>
    firstRow(Identified)(sql`
      select p.project_id, p.name as project_name, t.role, t.scopes, t.token_id as credential_id,
             t.token_id as subject, null as client_id, null as grant_id, ${instance} as instance_id, t.last_used_at
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_hash = ${token_hash}
         and t.revoked_at is null
         and (t.expires_at is null or t.expires_at > ${now})
         and p.disabled_at is null`)

  const findAccessToken = (token_hash: Uint8Array, now: Date) =>
    firstRow(Identified)(sql`
      select p.project_id, p.name as project_name, t.role, a.scopes, a.token_id as credential_id,
             t.token_id as subject, g.client_id, g.grant_id, g.instance_id, g.last_used_at
        from oauth_access_token a
        join oauth_grant g on g.grant_id = a.grant_id
        join oauth_client c on c.client_id = g.client_id
        join project_token t on t.token_id = g.project_token_id
        join project p on p.project_id = g.project_id
       where a.token_hash = ${token_hash}
         and a.revoked_at is null
         and a.expires_at > ${now}
         and g.revoked_at is null
         and g.expires_at > ${now}
         and g.resource = ${here.resource}
         and g.instance_id = ${instance}
         and c.disabled_at is null
         and t.revoked_at is null
         and (t.expires_at is null or t.expires_at > ${now})
         and p.disabled_at is null`)

  /** Waits for nobody: who holds the row is about to write more than this. */
  const touchProjectToken = (token_id: string, now: Date) => sql`
    update project_token
       set last_used_at = ${now}
     where token_id in (
       select token_id
         from project_token
        where token_id = ${token_id}::uuid
          for no key update skip locked)`

  const touchGrant = (grant_id: string, now: Date) => sql`
    update oauth_grant
       set last_used_at = ${now}
     where grant_id in (
       select grant_id
         from oauth_grant
        where grant_id = ${grant_id}::uuid
          for no key update skip locked)`

  return { findProjectToken, findAccessToken, touchProjectToken, touchGrant }
}
