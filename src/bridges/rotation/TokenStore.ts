/** The statements of self and revoke: they read or end one token. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { lookup } from "../../platform/sql/Lookup.ts"
import { firstRow } from "../../platform/sql/Rows.ts"
import { TokenState } from "../identity/TokenState.ts"
import { bearer, rotationFailed, tokenState } from "./RotationStore.ts"

const SelfState = Schema.Struct({
  ...TokenState.fields,
  device_id: Schema.String,
  display_name: Schema.String,
  account_references: Schema.Array(Schema.String),
  pending_rotation_id: Schema.NullOr(Schema.String),
  pending_until: Schema.NullOr(Schema.Date),
  public_key_fingerprint: Schema.String,
  dpop_required_since: Schema.NullOr(Schema.Date),
  key_since: Schema.Date,
  key_rotation_required_since: Schema.NullOr(Schema.Date),
  pending_key_rotation_id: Schema.NullOr(Schema.String),
  key_rotation_until: Schema.NullOr(Schema.Date)
})

export const make = (sql: SqlClient.SqlClient) => {
  /** The token with the fields of its Bridge that `tokens/self` returns. */
  const self = lookup(
    sql,
    SelfState,
    (token_hash) => sql`
      select ${tokenState(sql)}, i.device_id, i.display_name, r.rotation_id as pending_rotation_id,
             r.confirmation_expires_at as pending_until, i.public_key_fingerprint,
             i.dpop_required_since, coalesce(i.key_since, i.enrolled_at) as key_since, i.key_rotation_required_since,
             i.pending_key_rotation_id, i.key_rotation_until,
             array(select a.reference
                     from approved_account_reference a
                    where a.project_id = i.project_id
                      and a.reference = any (i.account_references)
                      and a.withdrawn_at is null
                    order by a.reference) as account_references
        from ${bearer(sql)}
        left join bridge_rotation r on r.rotation_id = i.pending_rotation_id and r.state = 'pending'
       where t.token_hash = ${token_hash}`
  )

  const findToken = (token_hash: Uint8Array) =>
    firstRow(TokenState)(sql`
      select ${tokenState(sql)}
        from ${bearer(sql)}
       where t.token_hash = ${token_hash}`)

  /**
   * Revokes the token, and cancels its pending successor or a key rotation. Returns no row, and changes nothing, unless the
   * token is active.
   */
  const revoke = (token_hash: Uint8Array, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ token_id: Schema.String }))(sql`
      with locked as materialized (
        select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id, t.token_id
          from bridge_identity i
          join bridge_token t on t.identity_id = i.identity_id
          join project p on p.project_id = i.project_id
         where t.token_hash = ${token_hash}
           and t.state = 'active'
           and t.expires_at > ${now}
           and i.status = 'active'
           and p.disabled_at is null
           for no key update of i, t
      ), cleared as materialized (
        -- Without this condition a pending rotation that the snapshot cannot see would stay pending.
        select * from locked
         where pending_rotation_id is null
            or exists (select 1 from bridge_rotation v where v.rotation_id = locked.pending_rotation_id)
      ), revoked as (
        update bridge_token t
           set state = 'revoked', ended_at = ${now}, end_reason = 'revoked'
          from cleared
         where t.token_id = cleared.token_id
        returning t.token_id
      ), cancelled as (
        update bridge_rotation r
           set state = case when r.confirmation_expires_at <= ${now} then 'expired' else 'cancelled' end,
               ended_at = least(r.confirmation_expires_at, ${now})
          from cleared
         where r.rotation_id = cleared.pending_rotation_id
           and r.state = 'pending'
        returning r.rotation_id, r.successor_id, r.ended_at, cleared.project_id, cleared.identity_id
      ), dropped as (
        update bridge_token t
           set state = 'revoked', ended_at = cancelled.ended_at, end_reason = 'predecessor_revoked'
          from cancelled
         where t.token_id = cancelled.successor_id
        returning t.token_id
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null, pending_key_rotation_id = null, key_rotation_until = null
          from cleared, revoked
         where i.identity_id = cleared.identity_id
        returning i.project_id, i.bridge_id, revoked.token_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.token_revoked",
        from: "pointed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'token_id', token_id)`
      })}), ${rotationFailed(sql, "cancelled", now)}
      select token_id from pointed`)

  return { self, findToken, revoke }
}
