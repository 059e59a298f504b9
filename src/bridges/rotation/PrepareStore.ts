/** The statements of prepare. */
import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { firstUuidAt } from "../../platform/crypto/Random.ts"
import { asked, inPlace, type Locking, Placed } from "../../platform/sql/Asked.ts"
import { auditRow, type Trace, traceColumns, traceTypes } from "../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { TokenState } from "../identity/TokenState.ts"
import { bearer, rotationFailed, RotationStatus, tokenState } from "./RotationStore.ts"

const Bytes = Schema.Uint8Array

/** A token, the rotation that was prepared with this Idempotency-Key (`key_*`), and the pending one (`pending_*`). */
const PrepareState = Schema.Struct({
  ...TokenState.fields,
  key_rotation_id: Schema.NullOr(Schema.String),
  key_predecessor_id: Schema.NullOr(Schema.String),
  key_state: Schema.NullOr(RotationStatus),
  key_confirmation_expires_at: Schema.NullOr(Schema.Date),
  key_successor_id: Schema.NullOr(Schema.String),
  key_token_hash: Schema.NullOr(Bytes),
  /** Set while the rotation is pending. */
  key_salt: Schema.NullOr(Bytes),
  key_key_id: Schema.NullOr(Schema.String),
  pending_until: Schema.NullOr(Schema.Date),
  pending_prepared_from: Schema.NullOr(Schema.String),
  /** The end of the window of the pending key rotation. */
  key_rotation_until: Schema.NullOr(Schema.Date),
  /** When the oldest rotation was prepared of those that use up the identity's limit; null if there are fewer. */
  limited_since: Schema.NullOr(Schema.Date)
})
export type PrepareState = typeof PrepareState.Type

/** How many rotations an identity may prepare since a time; confirmed and aborted ones count, too. */
export interface Allowed {
  readonly rotations: number
  readonly since: Date
}

export interface Preparing {
  readonly presented_hash: Uint8Array
  readonly prepare_key_hash: Uint8Array
  readonly successor: NewSuccessor
  readonly allowed: Allowed | undefined
  readonly trace: Trace
}

const types = {
  presented_hash: "bytea",
  prepare_key_hash: "bytea",
  rotation_id: "uuid",
  successor_id: "uuid",
  successor_hash: "bytea",
  derivation_salt: "bytea",
  key_id: "text",
  confirmation_expires_at: "timestamptz",
  since: "timestamptz",
  first_since: "uuid",
  ...traceTypes
} as const

const valuesOf = ({ allowed, prepare_key_hash, presented_hash, successor, trace }: Preparing) => {
  const since = allowed?.since ?? trace.at
  return { presented_hash, prepare_key_hash, ...successor, since, first_since: firstUuidAt(since), ...trace }
}

interface NewSuccessor {
  readonly rotation_id: string
  readonly successor_id: string
  readonly successor_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly confirmation_expires_at: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * The rotation of identity `i` that uses up the limit: no row if there are fewer. Ids sort by time, so the unique index of
   * identity and rotation returns the newest ones first.
   */
  const limiting = (
    rotations: number,
    since: Date | Statement.Fragment = sql`asked.since`,
    first: string | Statement.Fragment = sql`asked.first_since`
  ) => sql`
    select newest.created_at
      from (select r.created_at
              from bridge_rotation r
             where r.identity_id = i.identity_id
               and r.rotation_id >= ${first}::uuid
             order by r.rotation_id desc
            offset ${rotations - 1}
             limit 1) newest
     where newest.created_at > ${since}`

  /**
   * Ends a pending rotation whose window has passed, because `pending_rotation_id` must never point to a rotation that has
   * ended. `free` is the bearer if nothing else is pending.
   */
  const endLapsed = (now: Date) => sql`
      lapsed as (
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
        -- The joins make PostgreSQL end the lapsed rotation before it inserts the new one.
        select bearer.*
          from bearer
          left join lapsed on true
          left join dropped on true
         where bearer.pending_rotation_id is null
            or lapsed.rotation_id is not null
      ), ${rotationFailed(sql, "lapsed", now)}`

  /** Usually nothing is pending, and the clauses above would cost the database as much as the rest of the statement. */
  const nothingPending = sql`free as (select * from bearer where pending_rotation_id is null)`

  /**
   * Stores a pending successor for each request, in one statement. A request has no result, and changes nothing, if its
   * token is not active, the key was used before, another rotation, of token or key, is pending or as many were prepared as
   * are allowed. A pending rotation whose window has passed counts as pending, too, unless `replacing`, which only a single
   * request may be: then it expires in the same statement.
   */
  const prepare = (all: ReadonlyArray<Preparing>, locking: Locking, replacing = false) => {
    const { allowed, trace } = all[0]!
    return Effect.map(
      rows(Placed)(sql`
        with asked as (${asked(sql, types, "presented_hash", all.map(valuesOf))}
        ), bearer as materialized (
          -- With offset 0 PostgreSQL finds the rows of each request by its token, whatever its statistics say.
          select asked.*, found.*
            from asked
           cross join lateral (
             select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id, t.token_id
               from bridge_token t
               join bridge_identity i on i.identity_id = t.identity_id
               join project p on p.project_id = i.project_id
              where t.token_hash = asked.presented_hash
                and t.state = 'active'
                and t.expires_at > asked.at
                and i.status = 'active'
                and p.disabled_at is null
                and not exists (
                  select 1
                    from bridge_rotation k
                   where k.identity_id = i.identity_id
                     and k.prepare_key_hash = asked.prepare_key_hash)
                and (i.key_rotation_until is null or i.key_rotation_until <= asked.at)
                and ${allowed === undefined ? sql`true` : sql`not exists (${limiting(allowed.rotations)})`}
             offset 0
                for no key update of i, t ${sql.literal(locking)}) found
        ), ${replacing ? endLapsed(trace.at) : nothingPending}, rotation as (
          insert into bridge_rotation (
            rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
            confirmation_expires_at, prepare_key_hash)
          select rotation_id, identity_id, token_id, successor_id, 'pending', at, address, confirmation_expires_at,
                 prepare_key_hash
            from free
              -- A rotation with this key may have been prepared and ended after this statement's snapshot.
              on conflict (identity_id, prepare_key_hash) do nothing
          returning rotation_id as prepared_id
        ), prepared as materialized (
          select free.* from rotation join free on free.rotation_id = rotation.prepared_id
        ), successor as (
          insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at)
          select successor_id, identity_id, successor_hash, 'pending', derivation_salt, key_id, at
            from prepared
        ), pointed as (
          update bridge_identity i
             set pending_rotation_id = prepared.rotation_id
            from prepared
           where i.identity_id = prepared.identity_id
        ), audited as (${auditRow(sql, traceColumns(sql), {
          action: "bridge.rotation_prepared",
          from: "prepared",
          project: sql`project_id`,
          actor: sql`'bridge:' || bridge_id`,
          subject: sql`jsonb_build_object('bridge_id', bridge_id, 'rotation_id', rotation_id, 'token_id', token_id)`
        })})
        select place::int as place from prepared`),
      inPlace(all.length)
    )
  }

  const findPrepareState = (token_hash: Uint8Array, prepare_key_hash: Uint8Array, allowed: Allowed | undefined) =>
    firstRow(PrepareState)(sql`
      select ${tokenState(sql)}, k.rotation_id as key_rotation_id, k.predecessor_id as key_predecessor_id,
             k.state as key_state, k.confirmation_expires_at as key_confirmation_expires_at,
             k.successor_id as key_successor_id, s.token_hash as key_token_hash, s.derivation_salt as key_salt,
             s.key_id as key_key_id, r.confirmation_expires_at as pending_until,
             r.prepared_from as pending_prepared_from, i.key_rotation_until,
             ${allowed === undefined ? sql`null::timestamptz` : sql`(${limiting(allowed.rotations, allowed.since, firstUuidAt(allowed.since))})`} as limited_since
        from ${bearer(sql)}
        left join bridge_rotation k on k.identity_id = i.identity_id and k.prepare_key_hash = ${prepare_key_hash}
        left join bridge_token s on s.token_id = k.successor_id
        left join bridge_rotation r on r.rotation_id = i.pending_rotation_id and r.state = 'pending'
       where t.token_hash = ${token_hash}`)

  /** Prepares for one request, in place of a rotation whose window has passed. */
  const replace = (request: Preparing) => Effect.map(prepare([request], "", true), ([prepared]) => prepared!)

  return { prepare, replace, findPrepareState }
}
