/** The statements that issue access tokens to Bridges. The identity is locked first, as every writer of it does. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { remembered, wasUsed } from "../../../platform/proofs/ProofStore.ts"
import { auditRow, type Trace } from "../../../platform/sql/AuditRow.ts"
import { firstRow } from "../../../platform/sql/Rows.ts"
import { type Audience, instanceId } from "../../../platform/sql/access/StandingGrant.ts"
import { Role, type Scope, Scope as ScopeSchema } from "../../../wire/Scopes.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import type { Asserted } from "./ClientAssertion.ts"
import { jktOf } from "./TokenClauses.ts"

const Holder = Schema.Struct({
  identity_id: Schema.String,
  role: Schema.NullOr(Role),
  /** The Bridge is enrolled and has a token in force, and its project is not disabled. */
  alive: Schema.Boolean,
  assertion_used: Schema.Boolean,
  proof_used: Schema.Boolean
})
export type Holder = typeof Holder.Type

interface NewToken {
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly expires_at: Date
  readonly role: Role
  readonly scopes: ReadonlyArray<Scope>
}

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /** A Bridge that was revoked, has ended its token or let it expire is out until it enrolls again. */
  const isAlive = (now: Date) => sql`
    (i.status = 'active'
     and p.disabled_at is null
     and exists (select 1
                   from bridge_token b
                  where b.identity_id = i.identity_id
                    and b.state = 'active'
                    and b.expires_at > ${now}))`

  /** The Bridge of an assertion by its own key, in whatever state. */
  const find = ({ bridge_id, fingerprint, project_id, used }: Asserted, proven: Proven | undefined, now: Date) =>
    firstRow(Holder)(sql`
      select i.identity_id, i.access_role as role, ${isAlive(now)} as alive, ${wasUsed(sql, used)} as assertion_used,
             ${wasUsed(sql, proven?.used)} as proof_used
        from bridge_identity i
        join project p on p.project_id = i.project_id
       where i.project_id = ${project_id}::uuid
         and i.bridge_id = ${bridge_id}
         and i.public_key_fingerprint = ${fingerprint}`)

  /**
   * Stores a token and remembers proof and assertion. Returns no row, and issues nothing, unless all conditions hold. An
   * assertion is not used up by a proof that was.
   */
  const issue = (
    { bridge_id, fingerprint, project_id, used }: Asserted,
    proven: Proven | undefined,
    token: NewToken,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ scopes: Schema.Array(ScopeSchema) }))(sql`
      with found as materialized (
        select i.identity_id, i.project_id, i.bridge_id
          from bridge_identity i
          join project p on p.project_id = i.project_id
         where i.project_id = ${project_id}::uuid
           and i.bridge_id = ${bridge_id}
           and i.public_key_fingerprint = ${fingerprint}
           and i.access_role = ${token.role}
           and ${isAlive(now)}
           for no key update of i
      ), proved as (${proven === undefined ? sql`select from found` : remembered(sql, "found", proven.used)}
      ), asserted as (${remembered(sql, "proved", used)}
      ), locked as materialized (
        select found.*
          from found
         cross join asserted
      ), issued as (
        insert into bridge_access_token (
          token_id, token_hash, identity_id, role, public_key_fingerprint, scopes, resource, instance_id, dpop_jkt,
          created_at, expires_at)
        select ${token.token_id}::uuid, ${token.token_hash}::bytea, identity_id, ${token.role}::text,
               ${fingerprint}::text, ${token.scopes}::text[], ${audience.resource}::text, ${instanceId(sql, audience)},
               ${jktOf(proven)}::bytea, ${now}::timestamptz, ${token.expires_at}::timestamptz
          from locked
        returning scopes
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.access_token_issued",
        from: "locked",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id)`
      })})
      select scopes from issued`)

  return { find, issue }
}
