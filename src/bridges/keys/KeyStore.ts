/**
 * The statements of key rotation.
 *
 * A key rotation is pending while its identity names it and its window is open. Every decision rests on columns of locked
 * rows, as rotation/RotationStore.ts says.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { firstRow } from "../../platform/sql/Rows.ts"
import { TokenState } from "../identity/TokenState.ts"
import { bearer, tokenState } from "../rotation/RotationStore.ts"

const Bytes = Schema.Uint8Array
const Outcome = Schema.Literals(["confirmed", "aborted"])
export type Outcome = typeof Outcome.Type

/** The key rotation that a request is about: by its id, or by the Idempotency-Key of its prepare. */
const about = {
  key_rotation_id: Schema.NullOr(Schema.String),
  outcome: Schema.NullOr(Outcome),
  new_fingerprint: Schema.NullOr(Schema.String),
  nonce_hash: Schema.NullOr(Bytes),
  confirmation_ends: Schema.NullOr(Schema.Date),
  /** The identity names it. */
  named: Schema.Boolean
}

const PrepareState = Schema.Struct({
  ...TokenState.fields,
  ...about,
  public_key_fingerprint: Schema.String,
  derivation_salt: Schema.NullOr(Bytes),
  key_id: Schema.NullOr(Schema.String),
  /** The ends of the windows of a pending rotation, and of a pending key rotation. */
  pending_until: Schema.NullOr(Schema.Date),
  key_rotation_until: Schema.NullOr(Schema.Date),
  /** When the oldest key rotation was prepared of those that use up the limit; null if there are fewer. */
  limited_since: Schema.NullOr(Schema.Date)
})
export type PrepareState = typeof PrepareState.Type

const EndState = Schema.Struct({
  ...TokenState.fields,
  ...about,
  public_key_fingerprint: Schema.String,
  end_key_hash: Schema.NullOr(Bytes),
  end_request_hash: Schema.NullOr(Bytes),
  rotation_ended_at: Schema.NullOr(Schema.Date),
  /** The same Idempotency-Key has ended another key rotation of this identity in the same way. */
  key_used: Schema.Boolean
})
export type EndState = typeof EndState.Type

/** How many key rotations an identity may prepare since a time. */
export interface Allowed {
  readonly rotations: number
  readonly since: Date
}

export interface PrepareRequest {
  readonly token_hash: Uint8Array
  readonly key_hash: Uint8Array
  /** The fingerprint of the new key. */
  readonly fingerprint: string
  /** The fingerprint of the key that has proved itself. */
  readonly by: string
}

interface NewKeyRotation {
  readonly key_rotation_id: string
  readonly nonce_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly confirmation_expires_at: Date
}

export interface EndRequest {
  readonly token_hash: Uint8Array
  readonly key_rotation_id: string
  readonly key_hash: Uint8Array
  readonly request_hash: Uint8Array
  readonly by: string
}

export const make = (sql: SqlClient.SqlClient) => {
  const limiting = ({ rotations, since }: Allowed) => sql`
    select newest.created_at
      from bridge_key_rotation newest
     where newest.identity_id = i.identity_id
       and newest.created_at > ${since}
     order by newest.created_at desc
    offset ${rotations - 1}
     limit 1`

  /**
   * Stores a key rotation and names it. Returns no row, and changes nothing, if the token is not active, the key that proved
   * itself is not the identity's any more, the Idempotency-Key was used, anything else is pending or the limit is reached.
   */
  const prepare = (
    { by, fingerprint, key_hash, token_hash }: PrepareRequest,
    created: NewKeyRotation,
    allowed: Allowed | undefined,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ key_rotation_id: Schema.String }))(sql`
      with locked as materialized (
        select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id
          from bridge_identity i
          join bridge_token t on t.identity_id = i.identity_id
          join project p on p.project_id = i.project_id
         where t.token_hash = ${token_hash}
           and t.state = 'active'
           and t.expires_at > ${now}
           and i.status = 'active'
           and p.disabled_at is null
           and i.public_key_fingerprint = ${by}
           and i.public_key_fingerprint <> ${fingerprint}
           and (i.key_rotation_until is null or i.key_rotation_until <= ${now})
           and ${allowed === undefined ? sql`true` : sql`not exists (${limiting(allowed)})`}
           for no key update of i, t
      ), free as materialized (
        -- A pending rotation that is newer than this statement's snapshot is not found, and so counts as pending.
        select * from locked
         where pending_rotation_id is null
            or exists (select 1
                         from bridge_rotation r
                        where r.rotation_id = locked.pending_rotation_id
                          and r.confirmation_expires_at <= ${now})
      ), rotation as (
        insert into bridge_key_rotation (
          key_rotation_id, identity_id, public_key_fingerprint, old_fingerprint, nonce_hash, derivation_salt, key_id,
          created_at, confirmation_expires_at, prepare_key_hash)
        select ${created.key_rotation_id}::uuid, identity_id, ${fingerprint}::text, ${by}::text,
               ${created.nonce_hash}::bytea, ${created.derivation_salt}::bytea, ${created.key_id}::text,
               ${now}::timestamptz, ${created.confirmation_expires_at}::timestamptz, ${key_hash}::bytea
          from free
            on conflict (identity_id, prepare_key_hash) do nothing
        returning key_rotation_id, identity_id, confirmation_expires_at
      ), named as (
        update bridge_identity i
           set pending_key_rotation_id = rotation.key_rotation_id,
               key_rotation_until = rotation.confirmation_expires_at
          from rotation
         where i.identity_id = rotation.identity_id
        returning i.project_id, i.bridge_id, rotation.key_rotation_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.key_rotation_prepared",
        from: "named",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'key_rotation_id', key_rotation_id)`
      })})
      select key_rotation_id from named`)

  const rotationState = sql`
    k.key_rotation_id, k.outcome, k.public_key_fingerprint as new_fingerprint, k.nonce_hash,
    k.confirmation_expires_at as confirmation_ends,
    coalesce(i.pending_key_rotation_id = k.key_rotation_id, false) as named, i.public_key_fingerprint`

  const findPrepareState = ({ key_hash, token_hash }: PrepareRequest, allowed: Allowed | undefined) =>
    firstRow(PrepareState)(sql`
      select ${tokenState(sql)}, ${rotationState}, k.derivation_salt, k.key_id,
             r.confirmation_expires_at as pending_until, i.key_rotation_until,
             ${allowed === undefined ? sql`null::timestamptz` : sql`(${limiting(allowed)})`} as limited_since
        from ${bearer(sql)}
        left join bridge_key_rotation k on k.identity_id = i.identity_id and k.prepare_key_hash = ${key_hash}
        left join bridge_rotation r on r.rotation_id = i.pending_rotation_id and r.state = 'pending'
       where t.token_hash = ${token_hash}`)

  /** Locks a pending key rotation within its window, with its identity and the token of the request. */
  const locked = ({ by, key_hash, key_rotation_id, token_hash }: EndRequest, outcome: Outcome, now: Date) => sql`
    select i.identity_id, i.project_id, i.bridge_id, k.key_rotation_id, k.public_key_fingerprint as new_fingerprint
      from bridge_identity i
      join bridge_key_rotation k on k.identity_id = i.identity_id
      join bridge_token t on t.identity_id = i.identity_id
      join project p on p.project_id = i.project_id
     where t.token_hash = ${token_hash}
       and t.state = 'active'
       and t.expires_at > ${now}
       and i.status = 'active'
       and p.disabled_at is null
       and i.public_key_fingerprint = ${by}
       and k.key_rotation_id = ${key_rotation_id}::uuid
       and k.confirmation_expires_at > ${now}
       and i.pending_key_rotation_id = k.key_rotation_id
       and not exists (
         select 1
           from bridge_key_rotation o
          where o.identity_id = i.identity_id
            and o.end_key_hash = ${key_hash}
            and o.outcome = ${outcome})
       for no key update of i, k, t`

  const ended = ({ key_hash, request_hash }: EndRequest, outcome: Outcome, now: Date) => sql`
    update bridge_key_rotation k
       set outcome = ${outcome}, end_key_hash = ${key_hash}, end_request_hash = ${request_hash}, ended_at = ${now}
      from locked
     where k.key_rotation_id = locked.key_rotation_id
    returning k.key_rotation_id`

  const audited = (action: string, trace: Trace) =>
    auditRow(sql, trace, {
      action,
      from: "changed",
      project: sql`project_id`,
      actor: sql`'bridge:' || bridge_id`,
      subject: sql`jsonb_build_object('bridge_id', bridge_id, 'key_rotation_id', key_rotation_id)`
    })

  const Whose = Schema.Struct({ project_id: Schema.String, bridge_id: Schema.String })

  /** Puts the new key in the place of the old one. Returns no row, and changes nothing, unless all conditions hold. */
  const confirm = (request: EndRequest, now: Date, trace: Trace) =>
    firstRow(Whose)(sql`
      with locked as materialized (${locked(request, "confirmed", now)}
      ), ended as (${ended(request, "confirmed", now)}
      ), changed as (
        update bridge_identity i
           set public_key_fingerprint = locked.new_fingerprint,
               key_since = ${now},
               key_rotation_required_since = null,
               pending_key_rotation_id = null,
               key_rotation_until = null
          from locked, ended
         where i.identity_id = locked.identity_id
        returning i.project_id, i.bridge_id, locked.key_rotation_id
      ), audited as (${audited("bridge.key_rotated", trace)})
      select project_id, bridge_id from changed`)

  /** Keeps the old key. Returns no row, and changes nothing, unless all conditions hold. */
  const abort = (request: EndRequest, now: Date, trace: Trace) =>
    firstRow(Whose)(sql`
      with locked as materialized (${locked(request, "aborted", now)}
      ), ended as (${ended(request, "aborted", now)}
      ), changed as (
        update bridge_identity i
           set pending_key_rotation_id = null, key_rotation_until = null
          from locked, ended
         where i.identity_id = locked.identity_id
        returning i.project_id, i.bridge_id, locked.key_rotation_id
      ), audited as (${audited("bridge.key_rotation_aborted", trace)})
      select project_id, bridge_id from changed`)

  const findEndState = ({ key_hash, key_rotation_id, token_hash }: EndRequest, outcome: Outcome) =>
    firstRow(EndState)(sql`
      select ${tokenState(sql)}, ${rotationState}, k.end_key_hash, k.end_request_hash, k.ended_at as rotation_ended_at,
             exists (select 1
                       from bridge_key_rotation o
                      where o.identity_id = i.identity_id
                        and o.end_key_hash = ${key_hash}
                        and o.outcome = ${outcome}
                        and o.key_rotation_id <> ${key_rotation_id}::uuid) as key_used
        from ${bearer(sql)}
        left join bridge_key_rotation k on k.identity_id = i.identity_id
                                       and k.key_rotation_id = ${key_rotation_id}::uuid
       where t.token_hash = ${token_hash}`)

  return { prepare, findPrepareState, confirm, abort, findEndState }
}
