/** The statements of a proof. Locks are taken in the order that ChallengeStore.ts describes. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { asked, inPlace, type Locking, Placed } from "../../platform/sql/Asked.ts"
import { auditRow, type Trace, traceColumns, traceTypes } from "../../platform/sql/AuditRow.ts"
import { notified } from "../../platform/sql/PushRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

export const ChallengeState = Schema.Struct({
  challenge_id: Schema.String,
  identity_id: Schema.String,
  project_id: Schema.String,
  bridge_id: Schema.String,
  public_key_fingerprint: Schema.String,
  nonce_hash: Schema.Uint8Array,
  expires_at: Schema.Date,
  /** Checked besides `expires_at`, which the revoking replica sets by its own clock, perhaps ahead of this one. */
  credential_revoked: Schema.Boolean,
  revoked: Schema.Boolean,
  /** The identity is pending, or it is active and the credential re-enrolls it. */
  enrollable: Schema.Boolean,
  /** The same Idempotency-Key has proved another challenge of this identity. */
  key_used: Schema.Boolean,
  consumed_at: Schema.NullOr(Schema.Date),
  proof_key_hash: Schema.NullOr(Schema.Uint8Array),
  proof_request_hash: Schema.NullOr(Schema.Uint8Array),
  token_id: Schema.NullOr(Schema.String),
  token_state: Schema.NullOr(Schema.String),
  token_hash: Schema.NullOr(Schema.Uint8Array),
  /** Also null once the proof cannot be replayed any more. */
  token_salt: Schema.NullOr(Schema.Uint8Array),
  token_key_id: Schema.NullOr(Schema.String),
  token_expires_at: Schema.NullOr(Schema.Date)
})
export type ChallengeState = typeof ChallengeState.Type

interface NewToken {
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly expires_at: Date
}

export interface Proving {
  /** The identity of the challenge. */
  readonly identity_id: string
  readonly proof: { readonly challenge_id: string; readonly key_hash: Uint8Array; readonly request_hash: Uint8Array }
  readonly token: NewToken
  readonly trace: Trace
}

const types = {
  proved_identity: "uuid",
  proved_challenge: "uuid",
  proof_key_hash: "bytea",
  proof_request_hash: "bytea",
  token_id: "uuid",
  token_hash: "bytea",
  derivation_salt: "bytea",
  key_id: "text",
  expires_at: "timestamptz",
  ...traceTypes
} as const

const valuesOf = ({ identity_id, proof, token, trace }: Proving) => ({
  proved_identity: identity_id,
  proved_challenge: proof.challenge_id,
  proof_key_hash: proof.key_hash,
  proof_request_hash: proof.request_hash,
  ...token,
  ...trace
})

export const make = (sql: SqlClient.SqlClient) => {
  const findChallenge = (challenge_id: string, proof_key_hash: Uint8Array) =>
    firstRow(ChallengeState)(sql`
      select h.challenge_id, h.identity_id, i.project_id, i.bridge_id, h.public_key_fingerprint, h.nonce_hash,
             h.expires_at, c.revoked_at is not null as credential_revoked,
             i.status = 'revoked' or p.disabled_at is not null as revoked,
             i.status = 'pending'
               or (i.status = 'active' and c.reenroll_bridge_id is not null
                   and i.enrolled_credential_id is distinct from c.credential_id) as enrollable,
             exists (select 1
                       from enrollment_challenge o
                      where o.identity_id = h.identity_id
                        and o.proof_key_hash = ${proof_key_hash}
                        and o.challenge_id <> h.challenge_id) as key_used,
             h.consumed_at, h.proof_key_hash, h.proof_request_hash, h.token_id, t.state as token_state, t.token_hash,
             t.derivation_salt as token_salt, t.key_id as token_key_id, t.expires_at as token_expires_at
        from enrollment_challenge h
        join bridge_identity i on i.identity_id = h.identity_id
        join project p on p.project_id = i.project_id
        join bridge_enrollment_credential c on c.credential_id = h.credential_id
        left join bridge_token t on t.token_id = h.token_id
       where h.challenge_id = ${challenge_id}::uuid`)

  /**
   * For each request, consumes the challenge, activates the identity and stores its token, in one statement. A request has no
   * result, and changes nothing, unless all conditions hold.
   */
  const enroll = (all: ReadonlyArray<Proving>, locking: Locking) =>
    Effect.map(
      rows(Placed)(sql`
      with asked as (${asked(sql, types, "proved_identity", all.map(valuesOf))}
      ), locked as materialized (
        select asked.*, found.*
          from asked
         cross join lateral (
           select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id, h.challenge_id, h.credential_id,
                  h.device_id, h.display_name, h.public_key_fingerprint, c.account_references
             from enrollment_challenge h
             join bridge_identity i on i.identity_id = h.identity_id
             join bridge_enrollment_credential c on c.credential_id = h.credential_id
             join project p on p.project_id = i.project_id
            where h.challenge_id = asked.proved_challenge
              and h.consumed_at is null
              and h.expires_at > asked.at
              and c.revoked_at is null
              and p.disabled_at is null
              and (i.status = 'pending'
                   or (i.status = 'active' and c.reenroll_bridge_id is not null
                       and i.enrolled_credential_id is distinct from c.credential_id))
           offset 0
              for no key update of i, h ${sql.literal(locking)}) found
      ), cleared as materialized (
        -- A pending rotation that is newer than this statement's snapshot could not be cancelled below. Then the statement
        -- does nothing, and the caller runs it again.
        select * from locked
         where pending_rotation_id is null
            or exists (select 1 from bridge_rotation r where r.rotation_id = locked.pending_rotation_id)
      ), cancelled as (
        update bridge_rotation r
           set state = case when r.confirmation_expires_at <= cleared.at then 'expired' else 'cancelled' end,
               ended_at = least(r.confirmation_expires_at, cleared.at)
          from cleared
         where r.rotation_id = cleared.pending_rotation_id
           and r.state = 'pending'
        returning r.rotation_id
      ), replaced as (
        update bridge_token t
           set state = case when t.expires_at <= cleared.at then 'expired' else 'revoked' end,
               ended_at = least(t.expires_at, cleared.at),
               end_reason = case when t.expires_at <= cleared.at then 'expired' else 'reenrolled' end
          from cleared
         where t.identity_id = cleared.identity_id
           and t.state in ('pending', 'active')
        returning t.token_id
      ), token as (
        -- The count makes PostgreSQL end the old tokens first: an identity has at most one active token.
        insert into bridge_token (
          token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at)
        select token_id, identity_id, token_hash, 'active', derivation_salt, key_id, at, expires_at
          from cleared
         cross join (select count(*) from replaced) gone
      ), consumed as (
        update enrollment_challenge h
           set consumed_at = cleared.at,
               proof_key_hash = cleared.proof_key_hash,
               proof_request_hash = cleared.proof_request_hash,
               token_id = cleared.token_id
          from cleared
         where h.challenge_id = cleared.challenge_id
      ), enrolled as (
        update bridge_identity i
           set status = 'active',
               device_id = cleared.device_id,
               display_name = cleared.display_name,
               public_key_fingerprint = cleared.public_key_fingerprint,
               -- The same key again stays as old as it is, and as unwanted.
               key_since = case when i.enrolled_at is null or i.public_key_fingerprint <> cleared.public_key_fingerprint
                                then cleared.at else coalesce(i.key_since, i.enrolled_at) end,
               key_rotation_required_since =
                 case when i.public_key_fingerprint = cleared.public_key_fingerprint
                      then i.key_rotation_required_since end,
               -- A role belongs to the key that it was granted to.
               access_role = case when i.public_key_fingerprint = cleared.public_key_fingerprint then i.access_role end,
               access_granted_at =
                 case when i.public_key_fingerprint = cleared.public_key_fingerprint then i.access_granted_at end,
               account_references = cleared.account_references,
               enrolled_credential_id = cleared.credential_id,
               enrolled_at = cleared.at,
               challenge_expires_at = null,
               pending_rotation_id = null,
               pending_key_rotation_id = null,
               key_rotation_until = null
          from cleared
         where i.identity_id = cleared.identity_id
      ), audited as (${auditRow(sql, traceColumns(sql), {
        action: "bridge.enrolled",
        from: "cleared",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'credential_id', credential_id,
                                        'challenge_id', challenge_id, 'token_id', token_id)`
      })}), ${notified(sql, all[0]!.trace.at, {
        kind: "bridge.enrolled",
        from: "cleared",
        event: sql`e.token_id`,
        project: sql`e.project_id`,
        about: sql`e.identity_id`
      })}
      select place::int as place from cleared`),
      inPlace(all.length)
    )

  return { findChallenge, enroll }
}
