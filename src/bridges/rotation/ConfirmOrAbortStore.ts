/** The statements that confirm and abort a rotation. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { firstRow } from "../../platform/sql/Rows.ts"
import { TokenState } from "../identity/TokenState.ts"
import { bearer, RotationStatus, tokenState } from "./RotationStore.ts"

/** A token, and the rotation that the request names. */
const NamedRotation = Schema.Struct({
  ...TokenState.fields,
  rotation_id: Schema.NullOr(Schema.String),
  successor_id: Schema.NullOr(Schema.String),
  rotation_state: Schema.NullOr(RotationStatus),
  rotation_expires_at: Schema.NullOr(Schema.Date),
  end_key_hash: Schema.NullOr(Schema.Uint8Array),
  predecessor_state: Schema.NullOr(TokenState.fields.state),
  predecessor_expires_at: Schema.NullOr(Schema.Date),
  /** The same Idempotency-Key has confirmed, or aborted, another rotation of this identity. */
  key_used: Schema.Boolean
})
export type NamedRotation = typeof NamedRotation.Type

export type Outcome = "confirmed" | "aborted"

interface EndRequest {
  readonly token_hash: Uint8Array
  readonly rotation_id: string
  readonly key_hash: Uint8Array
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Locks the rows of a pending rotation within its window, if the request presents its successor. */
  const locked = (request: EndRequest, outcome: Outcome, now: Date) => sql`
    select i.identity_id, i.project_id, i.bridge_id, r.rotation_id, r.predecessor_id, r.successor_id
      from bridge_identity i
      join bridge_rotation r on r.identity_id = i.identity_id
      join bridge_token before on before.token_id = r.predecessor_id
      join bridge_token s on s.token_id = r.successor_id
      join project p on p.project_id = i.project_id
     where s.token_hash = ${request.token_hash}
       and r.rotation_id = ${request.rotation_id}::uuid
       and r.state = 'pending'
       and r.confirmation_expires_at > ${now}
       and i.status = 'active'
       and p.disabled_at is null
       and s.state = 'pending'
       and ${outcome === "aborted" ? sql`true` : sql`before.state = 'active' and before.expires_at > ${now}`}
       and not exists (
         select 1
           from bridge_rotation o
          where o.identity_id = i.identity_id
            and o.end_key_hash = ${request.key_hash}
            and o.state = ${outcome})
       for no key update of i, r, before, s`

  const endedRotation = (request: EndRequest, outcome: Outcome, now: Date) => sql`
    update bridge_rotation r
       set state = ${outcome}, end_key_hash = ${request.key_hash}, ended_at = ${now}
      from locked
     where r.rotation_id = locked.rotation_id
    returning r.rotation_id`

  /**
   * Promotes the successor and revokes the predecessor. From here on no retry of a prepare or proof needs the salts of the
   * two. Returns no row, and changes nothing, unless all
   * conditions hold.
   */
  const confirm = (request: EndRequest, expires_at: Date, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ project_id: Schema.String, bridge_id: Schema.String }))(sql`
      with locked as materialized (${locked(request, "confirmed", now)}
      ), retired as (
        update bridge_token t
           set state = 'revoked', ended_at = ${now}, end_reason = 'rotated', derivation_salt = null
          from locked
         where t.token_id = locked.predecessor_id
        returning t.token_id
      ), promoted as (
        -- The count makes PostgreSQL revoke the predecessor first: an identity has at most one active token.
        update bridge_token t
           set state = 'active', expires_at = ${expires_at}, derivation_salt = null
          from locked
         cross join (select count(*) from retired) gone
         where t.token_id = locked.successor_id
        returning t.token_id
      ), ended as (${endedRotation(request, "confirmed", now)}
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null
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

  /** Revokes the successor and keeps the predecessor. Returns no row, and changes nothing, unless all conditions hold. */
  const abort = (request: EndRequest, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ project_id: Schema.String, bridge_id: Schema.String }))(sql`
      with locked as materialized (${locked(request, "aborted", now)}
      ), dropped as (
        update bridge_token t
           set state = 'revoked', ended_at = ${now}, end_reason = 'aborted'
          from locked
         where t.token_id = locked.successor_id
        returning t.token_id
      ), ended as (${endedRotation(request, "aborted", now)}
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

  const findNamedRotation = (request: EndRequest, outcome: Outcome) =>
    firstRow(NamedRotation)(sql`
      select ${tokenState(sql)}, r.rotation_id, r.successor_id, r.state as rotation_state,
             r.confirmation_expires_at as rotation_expires_at, r.end_key_hash,
             before.state as predecessor_state, before.expires_at as predecessor_expires_at,
             exists (select 1
                       from bridge_rotation o
                      where o.identity_id = i.identity_id
                        and o.end_key_hash = ${request.key_hash}
                        and o.state = ${outcome}
                        and o.rotation_id <> ${request.rotation_id}::uuid) as key_used
        from ${bearer(sql)}
        left join bridge_rotation r on r.identity_id = i.identity_id and r.rotation_id = ${request.rotation_id}::uuid
        left join bridge_token before on before.token_id = r.predecessor_id
       where t.token_hash = ${request.token_hash}`)

  return { confirm, abort, findNamedRotation }
}
