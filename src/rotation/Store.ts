/**
 * The statements of rotation: one each to prepare, confirm, abort, revoke and look up a bearer.
 *
 * Every writer locks the identity first, then rotation, predecessor, successor. A statement's snapshot is older than the
 * lock it waits for: only locked rows are current afterwards. So all that a decision rests on is a column of a locked
 * row, `pending_rotation_id` above all, and a rotation that the pointer names but the snapshot cannot see means: do
 * nothing, run again. Without that guard a prepare beside a revoke leaves a live successor behind.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { TokenState } from "../bridge/Guard.ts"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { notified } from "../wire/PushRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"

const RotationStatus = Schema.Literals(["pending", "confirmed", "aborted", "expired", "cancelled"])
const Bytes = Schema.Uint8Array

export const SelfState = Schema.Struct({
  ...TokenState.fields,
  device_id: Schema.String,
  display_name: Schema.String,
  account_references: Schema.Array(Schema.String),
  pending_rotation_id: Schema.NullOr(Schema.String),
  pending_until: Schema.NullOr(Schema.Date)
})

/** A bearer, the rotation its prepare key made, and the rotation that is pending. */
export const PrepareState = Schema.Struct({
  ...TokenState.fields,
  key_rotation_id: Schema.NullOr(Schema.String),
  key_predecessor_id: Schema.NullOr(Schema.String),
  key_state: Schema.NullOr(RotationStatus),
  key_confirmation_expires_at: Schema.NullOr(Schema.Date),
  key_successor_id: Schema.NullOr(Schema.String),
  key_token_hash: Schema.NullOr(Bytes),
  key_salt: Schema.NullOr(Bytes),
  key_key_id: Schema.NullOr(Schema.String),
  pending_until: Schema.NullOr(Schema.Date),
  pending_prepared_from: Schema.NullOr(Schema.String)
})
export type PrepareState = typeof PrepareState.Type

/** A bearer and the rotation that it wants to end. */
export const EndState = Schema.Struct({
  ...TokenState.fields,
  rotation_id: Schema.NullOr(Schema.String),
  successor_id: Schema.NullOr(Schema.String),
  rotation_state: Schema.NullOr(RotationStatus),
  rotation_expires_at: Schema.NullOr(Schema.Date),
  end_key_hash: Schema.NullOr(Bytes),
  predecessor_state: Schema.NullOr(TokenState.fields.state),
  predecessor_expires_at: Schema.NullOr(Schema.Date),
  /** The key ended another rotation of this identity in the same way. */
  key_used: Schema.Boolean
})
export type EndState = typeof EndState.Type

interface NewSuccessor {
  readonly rotation_id: string
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly confirmation_expires_at: Date
}

interface Ending {
  readonly token_hash: Uint8Array
  readonly rotation_id: string
  readonly key_hash: Uint8Array
}

export const make = (sql: SqlClient.SqlClient) => {
  /** `from` names the clause that ended a rotation which nobody confirmed or aborted. */
  const rotationFailed = (from: string, now: Date) =>
    notified(sql, now, {
      kind: "bridge.rotation_failed",
      from,
      event: sql`e.rotation_id`,
      project: sql`e.project_id`,
      about: sql`e.identity_id`
    })

  const tokenState = sql`
    t.token_id, t.state, t.expires_at, t.ended_at, t.end_reason, i.project_id, i.bridge_id,
    i.status = 'revoked' or p.disabled_at is not null as revoked, own.confirmation_expires_at`

  const bearer = sql`
    bridge_token t
    join bridge_identity i on i.identity_id = t.identity_id
    join project p on p.project_id = i.project_id
    left join bridge_rotation own on own.successor_id = t.token_id`

  const findSelf = (token_hash: Uint8Array) =>
    firstRow(SelfState)(sql`
      select ${tokenState}, i.device_id, i.display_name, r.rotation_id as pending_rotation_id,
             r.confirmation_expires_at as pending_until,
             array(select a.reference
                     from approved_account_reference a
                    where a.project_id = i.project_id
                      and a.reference = any (i.account_references)
                      and a.withdrawn_at is null
                    order by a.reference) as account_references
        from ${bearer}
        left join bridge_rotation r on r.rotation_id = i.pending_rotation_id and r.state = 'pending'
       where t.token_hash = ${token_hash}`)

  /**
   * Stores the pending successor, or does nothing and returns nothing. A rotation whose window has passed is settled
   * only together with that: settled alone, it would leave the pointer at a rotation that has ended.
   */
  const prepare = (
    token_hash: Uint8Array,
    prepare_key_hash: Uint8Array,
    successor: NewSuccessor,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ rotation_id: Schema.String }))(sql`
      with bearer as materialized (
        select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id, t.token_id
          from bridge_identity i
          join bridge_token t on t.identity_id = i.identity_id
          join project p on p.project_id = i.project_id
         where t.token_hash = ${token_hash}
           and t.state = 'active'
           and t.expires_at > ${now}
           and i.status = 'active'
           and p.disabled_at is null
           and not exists (
             select 1
               from bridge_rotation k
              where k.identity_id = i.identity_id
                and k.prepare_key_hash = ${prepare_key_hash})
           for no key update of i, t
      ), lapsed as (
        update bridge_rotation r
           set state = 'expired', ended_at = r.confirmation_expires_at
          from bearer
         where r.rotation_id = bearer.pending_rotation_id
           and r.state = 'pending'
           and r.confirmation_expires_at <= ${now}
        returning r.rotation_id, r.successor_id, r.ended_at, bearer.project_id, bearer.identity_id
      ), dropped as (
        update bridge_token s
           set state = 'revoked', ended_at = lapsed.ended_at, end_reason = 'rotation_expired'
          from lapsed
         where s.token_id = lapsed.successor_id
        returning s.token_id
      ), free as (
        -- Joining makes a lapsed rotation give way before the new one is inserted.
        select bearer.*
          from bearer
          left join lapsed on true
          left join dropped on true
         where bearer.pending_rotation_id is null
            or lapsed.rotation_id is not null
      ), rotation as (
        insert into bridge_rotation (
          rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
          confirmation_expires_at, prepare_key_hash)
        select ${successor.rotation_id}::uuid, identity_id, token_id, ${successor.token_id}::uuid, 'pending',
               ${now}::timestamptz, ${trace.address}::text, ${successor.confirmation_expires_at}::timestamptz,
               ${prepare_key_hash}::bytea
          from free
            -- The key's rotation may have come and gone since this statement's snapshot.
            on conflict (identity_id, prepare_key_hash) do nothing
        returning rotation_id, identity_id
      ), successor as (
        insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at)
        select ${successor.token_id}::uuid, identity_id, ${successor.token_hash}::bytea, 'pending',
               ${successor.derivation_salt}::bytea, ${successor.key_id}, ${now}::timestamptz
          from rotation
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = rotation.rotation_id
          from bearer, rotation
         where i.identity_id = bearer.identity_id
        returning i.project_id, i.bridge_id, rotation.rotation_id, bearer.token_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.rotation_prepared",
        from: "pointed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id, 'token_id', token_id)`
      })}), ${rotationFailed("lapsed", now)}
      select rotation_id from rotation`)

  const findPrepare = (token_hash: Uint8Array, prepare_key_hash: Uint8Array) =>
    firstRow(PrepareState)(sql`
      select ${tokenState}, k.rotation_id as key_rotation_id, k.predecessor_id as key_predecessor_id,
             k.state as key_state, k.confirmation_expires_at as key_confirmation_expires_at,
             k.successor_id as key_successor_id, s.token_hash as key_token_hash, s.derivation_salt as key_salt,
             s.key_id as key_key_id, r.confirmation_expires_at as pending_until,
             r.prepared_from as pending_prepared_from
        from ${bearer}
        left join bridge_rotation k on k.identity_id = i.identity_id and k.prepare_key_hash = ${prepare_key_hash}
        left join bridge_token s on s.token_id = k.successor_id
        left join bridge_rotation r on r.rotation_id = i.pending_rotation_id and r.state = 'pending'
       where t.token_hash = ${token_hash}`)

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
      select ${tokenState}, r.rotation_id, r.successor_id, r.state as rotation_state,
             r.confirmation_expires_at as rotation_expires_at, r.end_key_hash,
             before.state as predecessor_state, before.expires_at as predecessor_expires_at,
             exists (select 1
                       from bridge_rotation o
                      where o.identity_id = i.identity_id
                        and o.end_key_hash = ${end.key_hash}
                        and o.state = ${state}
                        and o.rotation_id <> ${end.rotation_id}::uuid) as key_used
        from ${bearer}
        left join bridge_rotation r on r.identity_id = i.identity_id and r.rotation_id = ${end.rotation_id}::uuid
        left join bridge_token before on before.token_id = r.predecessor_id
       where t.token_hash = ${end.token_hash}`)

  /** Revokes the token and cancels its pending successor, or does nothing and returns nothing. */
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
        -- The guard: a pending rotation that this snapshot cannot see would survive.
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
           set pending_rotation_id = null
          from cleared, revoked
         where i.identity_id = cleared.identity_id
        returning i.project_id, i.bridge_id, revoked.token_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.token_revoked",
        from: "pointed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'token_id', token_id)`
      })}), ${rotationFailed("cancelled", now)}
      select token_id from pointed`)

  const findBearer = (token_hash: Uint8Array) =>
    firstRow(TokenState)(sql`
      select ${tokenState}
        from ${bearer}
       where t.token_hash = ${token_hash}`)

  /** Writes down rotations whose window has passed; at most `limit`, and none that somebody is working on. */
  const settleRotations = (now: Date, limit: number) =>
    rows(Schema.Struct({ rotation_id: Schema.String }))(sql`
      with due as materialized (
        select i.identity_id, i.project_id, r.rotation_id, r.successor_id
          from bridge_identity i
          join bridge_rotation r on r.rotation_id = i.pending_rotation_id
         where r.state = 'pending'
           and r.confirmation_expires_at <= ${now}
         limit ${limit}
           for no key update of i, r skip locked
      ), ended as (
        update bridge_rotation r
           set state = 'expired', ended_at = r.confirmation_expires_at
          from due
         where r.rotation_id = due.rotation_id
        returning r.rotation_id, r.successor_id, r.ended_at, due.project_id, due.identity_id
      ), dropped as (
        update bridge_token t
           set state = 'revoked', ended_at = ended.ended_at, end_reason = 'rotation_expired'
          from ended
         where t.token_id = ended.successor_id
      ), pointed as (
        update bridge_identity i
           set pending_rotation_id = null
          from due
         where i.identity_id = due.identity_id
      ), ${rotationFailed("ended", now)}
      select rotation_id from ended`)

  /** Writes down active tokens that have expired. */
  const settleTokens = (now: Date, limit: number) =>
    rows(Schema.Struct({ token_id: Schema.String }))(sql`
      with due as materialized (
        select t.token_id
          from bridge_identity i
          join bridge_token t on t.identity_id = i.identity_id
         where t.state = 'active'
           and t.expires_at <= ${now}
         limit ${limit}
           for no key update of i, t skip locked
      )
      update bridge_token t
         set state = 'expired', ended_at = t.expires_at, end_reason = 'expired'
        from due
       where t.token_id = due.token_id
      returning t.token_id`)

  const purgeRotations = (before: Date, limit: number) =>
    rows(Schema.Struct({ rotation_id: Schema.String }))(sql`
      delete from bridge_rotation
       where rotation_id in (
         select rotation_id
           from bridge_rotation
          where ended_at < ${before}
          limit ${limit})
      returning rotation_id`)

  return {
    findSelf,
    findBearer,
    prepare,
    findPrepare,
    confirm,
    abort,
    findEnd,
    revoke,
    settleRotations,
    settleTokens,
    purgeRotations
  }
}
