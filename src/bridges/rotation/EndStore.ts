/** The statements that confirm and abort: the ends that the holder of the successor gives a rotation. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { TokenState } from "../identity/Guard.ts"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { firstRow } from "../../platform/sql/Rows.ts"
import { bearer, RotationStatus, tokenState } from "./RotationStore.ts"

/** A bearer and the rotation that it wants to end. */
const EndState = Schema.Struct({
  ...TokenState.fields,
  rotation_id: Schema.NullOr(Schema.String),
  successor_id: Schema.NullOr(Schema.String),
  rotation_state: Schema.NullOr(RotationStatus),
  rotation_expires_at: Schema.NullOr(Schema.Date),
  end_key_hash: Schema.NullOr(Schema.Uint8Array),
  predecessor_state: Schema.NullOr(TokenState.fields.state),
  predecessor_expires_at: Schema.NullOr(Schema.Date),
  /** The key ended another rotation of this identity in the same way. */
  key_used: Schema.Boolean
})
export type EndState = typeof EndState.Type

interface Ending {
  readonly token_hash: Uint8Array
  readonly rotation_id: string
  readonly key_hash: Uint8Array
}

export const make = (sql: SqlClient.SqlClient) => {
  const locked = (end: Ending, state: "confirmed" | "aborted", now: Date) => sql`
    select i.identity_id, i.project_id, i.bridge_id, r.rotation_id, r.predecessor_id, r.successor_id
      from bridge_identity i
      join bridge_rotation r on r.identity_id = i.identity_id
      join bridge_token before on before.token_id = r.predecessor_id
      join bridge_token s on s.token_id = r.successor_id
      join project p on p.project_id = i.project_id
     where s.token_hash = ${end.token_hash}
       and r.rotation_id = ${end.rotation_id}::uuid
       and r.state = 'pending'
       and r.confirmation_expires_at > ${now}
       and i.status = 'active'
       and p.disabled_at is null
       and s.state = 'pending'
       and ${state === "aborted" ? sql`true` : sql`before.state = 'active' and before.expires_at > ${now}`}
       and not exists (
         select 1
           from bridge_rotation o
          where o.identity_id = i.identity_id
            and o.end_key_hash = ${end.key_hash}
            and o.state = ${state})
       for no key update of i, r, before, s`

  const endedRotation = (end: Ending, state: "confirmed" | "aborted", now: Date) => sql`
    update bridge_rotation r
       set state = ${state}, end_key_hash = ${end.key_hash}, ended_at = ${now}
      from locked
     where r.rotation_id = locked.rotation_id
    returning r.rotation_id`

  /** Makes the successor the token and revokes the predecessor, or does nothing and returns nothing. */
  const confirm = (end: Ending, expires_at: Date, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ project_id: Schema.String, bridge_id: Schema.String }))(sql`
      with locked as materialized (${locked(end, "confirmed", now)}
      ), retired as (
        update bridge_token t
           set state = 'revoked', ended_at = ${now}, end_reason = 'rotated'
          from locked
         where t.token_id = locked.predecessor_id
        returning t.token_id
      ), promoted as (
        -- Counting makes the predecessor give way before the successor becomes the active token.
        update bridge_token t
           set state = 'active', expires_at = ${expires_at}
          from locked
         cross join (select count(*) from retired) gone
         where t.token_id = locked.successor_id
        returning t.token_id
      ), ended as (${endedRotation(end, "confirmed", now)}
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null, generation = i.generation + 1
          from locked, promoted, ended
         where i.identity_id = locked.identity_id
        returning i.project_id, i.bridge_id, locked.rotation_id, promoted.token_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.rotation_confirmed",
        from: "pointed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id, 'token_id', token_id)`
      })})
      select project_id, bridge_id from pointed`)

  /** Revokes the successor and leaves the predecessor as it is, or does nothing and returns nothing. */
  const abort = (end: Ending, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ project_id: Schema.String, bridge_id: Schema.String }))(sql`
      with locked as materialized (${locked(end, "aborted", now)}
      ), dropped as (
        update bridge_token t
           set state = 'revoked', ended_at = ${now}, end_reason = 'aborted'
          from locked
         where t.token_id = locked.successor_id
        returning t.token_id
      ), ended as (${endedRotation(end, "aborted", now)}
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null
          from locked, dropped, ended
         where i.identity_id = locked.identity_id
        returning i.project_id, i.bridge_id, locked.rotation_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.rotation_aborted",
        from: "pointed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id)`
      })})
      select project_id, bridge_id from pointed`)

  const findEnd = (end: Ending, state: "confirmed" | "aborted") =>
    firstRow(EndState)(sql`
      select ${tokenState(sql)}, r.rotation_id, r.successor_id, r.state as rotation_state,
             r.confirmation_expires_at as rotation_expires_at, r.end_key_hash,
             before.state as predecessor_state, before.expires_at as predecessor_expires_at,
             exists (select 1
                       from bridge_rotation o
                      where o.identity_id = i.identity_id
                        and o.end_key_hash = ${end.key_hash}
                        and o.state = ${state}
                        and o.rotation_id <> ${end.rotation_id}::uuid) as key_used
        from ${bearer(sql)}
        left join bridge_rotation r on r.identity_id = i.identity_id and r.rotation_id = ${end.rotation_id}::uuid
        left join bridge_token before on before.token_id = r.predecessor_id
       where t.token_hash = ${end.token_hash}`)

  return { confirm, abort, findEnd }
}
