/** Finds the actor of a credential in one statement per kind, and records its last use. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lookup } from "../../platform/sql/Lookup.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { Role, Scope } from "../../wire/Scopes.ts"
import { type Audience, hasAudience, instanceId, joined, inForce } from "../../platform/sql/access/StandingGrant.ts"
import { tokenInForce } from "../../platform/sql/access/StandingToken.ts"

const Identified = Schema.Struct({
  project_id: Schema.String,
  project_name: Schema.String,
  role: Role,
  scopes: Schema.Array(Scope),
  credential_id: Schema.String,
  subject: Schema.String,
  client_id: Schema.NullOr(Schema.String),
  grant_id: Schema.NullOr(Schema.String),
  bridge_id: Schema.NullOr(Schema.String),
  instance_id: Schema.String,
  limits: Schema.Record(Schema.String, Schema.Number),
  last_used_at: Schema.NullOr(Schema.Date),
  /** The key that the credential is bound to. */
  dpop_jkt: Schema.NullOr(Schema.Uint8Array)
})

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  const projectToken = lookup(
    sql,
    Identified,
    (token_hash, now) => sql`
      select p.project_id, p.name as project_name, t.role, t.scopes, t.token_id as credential_id,
             t.token_id as subject, null as client_id, null as grant_id,
             null as bridge_id, ${instanceId(sql, audience)} as instance_id,
             p.limits, t.last_used_at, null::bytea as dpop_jkt
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_hash = ${token_hash}
         and ${tokenInForce(sql, now)}`
  )

  const accessToken = lookup(
    sql,
    Identified,
    (token_hash, now) => sql`
      select p.project_id, p.name as project_name, t.role, a.scopes, a.token_id as credential_id,
             t.token_id as subject, g.client_id, g.grant_id, null as bridge_id, g.instance_id, p.limits, g.last_used_at,
             a.dpop_jkt
        from oauth_access_token a
        join oauth_grant g on g.grant_id = a.grant_id
        ${joined(sql)}
       where a.token_hash = ${token_hash}
         and a.revoked_at is null
         and a.expires_at > ${now}
         and ${inForce(sql, now)}
         and ${hasAudience(sql, audience)}`
  )

  /**
   * The Bridge still has the grant, the enrollment and the key that the token was issued for, and a Bridge token in force.
   */
  const bridgeToken = lookup(
    sql,
    Identified,
    (token_hash, now) => sql`
      select p.project_id, p.name as project_name, g.role, g.scopes, g.token_id as credential_id,
             i.identity_id as subject, null as client_id, null as grant_id, i.bridge_id, g.instance_id, p.limits,
             g.created_at as last_used_at, g.dpop_jkt
        from bridge_access_token g
        join bridge_identity i on i.identity_id = g.identity_id
        join project p on p.project_id = i.project_id
       where g.token_hash = ${token_hash}
         and g.expires_at > ${now}
         and i.status = 'active'
         and i.access_role = g.role
         and i.access_granted_at <= g.created_at
         and i.enrolled_at <= g.created_at
         and i.public_key_fingerprint = g.public_key_fingerprint
         and exists (select 1
                       from bridge_token b
                      where b.identity_id = i.identity_id
                        and b.state = 'active'
                        and b.expires_at > ${now})
         and p.disabled_at is null
         and ${hasAudience(sql, audience)}`
  )

  /** Skips a locked row: another transaction is already writing it, and `last_used_at` may be late. */
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

  const countForeignGrants = (now: Date) =>
    rows(Schema.Struct({ grants: Schema.Int }))(sql`
      select count(*)::int as grants
        from oauth_grant g
       where g.revoked_at is null
         and g.expires_at > ${now}
         and not ${hasAudience(sql, audience)}`)

  return { countForeignGrants, projectToken, accessToken, bridgeToken, touchProjectToken, touchGrant }
}
