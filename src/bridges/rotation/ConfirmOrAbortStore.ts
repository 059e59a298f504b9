/** The statements that confirm and abort a rotation. */
import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { asked, inPlace, type Locking, Placed } from "../../platform/sql/Asked.ts"
import { auditRow, type Trace, traceColumns, traceTypes } from "../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
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

export interface Ending extends EndRequest {
  /** When the promoted token expires. */
  readonly expires_at: Date
  readonly trace: Trace
}

const types = {
  presented_hash: "bytea",
  named_id: "uuid",
  end_key_hash: "bytea",
  expires_at: "timestamptz",
  ...traceTypes
} as const

const valuesOf = ({ expires_at, key_hash, rotation_id, token_hash, trace }: Ending) => ({
  presented_hash: token_hash,
  named_id: rotation_id,
  end_key_hash: key_hash,
  expires_at,
  ...trace
})

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Locks the rows of a pending rotation within its window, for each request that presents its successor. With `offset 0`
   * PostgreSQL finds them by the token, whatever its statistics say.
   */
  const locked = (all: ReadonlyArray<Ending>, outcome: Outcome, locking: Locking) => sql`
      asked as (${asked(sql, types, "presented_hash", all.map(valuesOf))}
      ), locked as materialized (
        select asked.*, found.*
          from asked
         cross join lateral (
           select i.identity_id, i.project_id, i.bridge_id, r.rotation_id, r.predecessor_id, s.token_id
             from bridge_token s
             join bridge_identity i on i.identity_id = s.identity_id
             join bridge_rotation r on r.successor_id = s.token_id
             join bridge_token before on before.token_id = r.predecessor_id
             join project p on p.project_id = i.project_id
            where s.token_hash = asked.presented_hash
              and r.rotation_id = asked.named_id
              and r.identity_id = i.identity_id
              and r.state = 'pending'
              and r.confirmation_expires_at > asked.at
              and i.status = 'active'
              and p.disabled_at is null
              and s.state = 'pending'
              and ${outcome === "aborted" ? sql`true` : sql`before.state = 'active' and before.expires_at > asked.at`}
              and not exists (
                select 1
                  from bridge_rotation o
                 where o.identity_id = i.identity_id
                   and o.end_key_hash = asked.end_key_hash
                   and o.state = ${outcome})
           offset 0
              for no key update of i, r, before, s ${sql.literal(locking)}) found
      ), ended as (
        update bridge_rotation r
           set state = ${outcome}, end_key_hash = locked.end_key_hash, ended_at = locked.at
          from locked
         where r.rotation_id = locked.rotation_id
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null
          from locked
         where i.identity_id = locked.identity_id
      )`

  const Ended = Schema.Struct({ ...Placed.fields, project_id: Schema.String, bridge_id: Schema.String })

  /**
   * Promotes the successor of each request and revokes its predecessor, in one statement. From here on no retry of a prepare
   * or proof needs the salts of the two. A request has no result, and changes nothing, unless all conditions hold.
   */
  const confirm = (all: ReadonlyArray<Ending>, locking: Locking) =>
    Effect.map(
      rows(Ended)(sql`
      with ${locked(all, "confirmed", locking)}, retired as (
        update bridge_token t
           set state = 'revoked', ended_at = locked.at, end_reason = 'rotated', derivation_salt = null
          from locked
         where t.token_id = locked.predecessor_id
        returning t.token_id
      ), promoted as (
        -- The count makes PostgreSQL revoke the predecessors first: an identity has at most one active token.
        update bridge_token t
           set state = 'active', expires_at = locked.expires_at, derivation_salt = null
          from locked
         cross join (select count(*) from retired) gone
         where t.token_id = locked.token_id
      ), audited as (${auditRow(sql, traceColumns(sql), {
        action: "bridge.rotation_confirmed",
        from: "locked",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id, 'token_id', token_id)`
      })})
      select place::int as place, project_id, bridge_id from locked`),
      inPlace(all.length)
    )

  /** Revokes the successor and keeps the predecessor, under the same conditions. */
  const abort = (request: Ending) =>
    Effect.map(
      rows(Ended)(sql`
      with ${locked([request], "aborted", "")}, dropped as (
        update bridge_token t
           set state = 'revoked', ended_at = locked.at, end_reason = 'aborted'
          from locked
         where t.token_id = locked.token_id
      ), audited as (${auditRow(sql, traceColumns(sql), {
        action: "bridge.rotation_aborted",
        from: "locked",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id)`
      })})
      select place::int as place, project_id, bridge_id from locked`),
      ([ended]) => Option.fromUndefinedOr(ended)
    )

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
