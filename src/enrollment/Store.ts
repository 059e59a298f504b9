/**
 * The statements of enrollment.
 *
 * Locks are taken in one order: credential, identity, challenge, token. What a statement decides on is on rows that it
 * has locked; a statement that may not act returns no row, and its caller reads why.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { notified } from "../wire/PushRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"

const Bytes = Schema.Uint8Array
const At = Schema.Date

export const CredentialState = Schema.Struct({
  credential_id: Schema.String,
  project_id: Schema.String,
  reenroll_bridge_id: Schema.NullOr(Schema.String),
  expires_at: At,
  revoked: Schema.Boolean,
  claimed_bridge_id: Schema.NullOr(Schema.String),
  claimed_device_id: Schema.NullOr(Schema.String),
  claimed_fingerprint: Schema.NullOr(Schema.String),
  challenge_expires_at: Schema.NullOr(At),
  consumed: Schema.Boolean,
  identity_status: Schema.NullOr(Schema.Literals(["pending", "active", "revoked"])),
  identity_fingerprint: Schema.NullOr(Schema.String),
  identity_reserved_until: Schema.NullOr(At)
})
export type CredentialState = typeof CredentialState.Type

/** The challenge that an Idempotency-Key of a credential made. */
export const EarlierChallenge = Schema.Struct({
  challenge_id: Schema.String,
  request_hash: Bytes,
  nonce_hash: Bytes,
  derivation_salt: Bytes,
  key_id: Schema.String,
  expires_at: At
})

export const ChallengeState = Schema.Struct({
  challenge_id: Schema.String,
  identity_id: Schema.String,
  project_id: Schema.String,
  bridge_id: Schema.String,
  public_key_fingerprint: Schema.String,
  nonce_hash: Bytes,
  expires_at: At,
  /** Not told by `expires_at` alone: who revoked it may have had a faster clock. */
  credential_revoked: Schema.Boolean,
  revoked: Schema.Boolean,
  /** The identity can take this proof: pending, or active and the credential re-enrolls it. */
  enrollable: Schema.Boolean,
  key_used: Schema.Boolean,
  consumed_at: Schema.NullOr(At),
  proof_key_hash: Schema.NullOr(Bytes),
  proof_request_hash: Schema.NullOr(Bytes),
  token_id: Schema.NullOr(Schema.String),
  token_state: Schema.NullOr(Schema.String),
  token_hash: Schema.NullOr(Bytes),
  token_salt: Schema.NullOr(Bytes),
  token_key_id: Schema.NullOr(Schema.String),
  token_expires_at: Schema.NullOr(At)
})
export type ChallengeState = typeof ChallengeState.Type

interface Ask {
  readonly credential_hash: Uint8Array
  readonly project_id: string
  readonly bridge_id: string
  readonly device_id: string
  readonly display_name: string
  readonly public_key_fingerprint: string
  readonly idempotency_key_hash: Uint8Array
  readonly request_hash: Uint8Array
}

interface NewChallenge {
  readonly challenge_id: string
  readonly identity_id: string
  readonly nonce_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly expires_at: Date
}

interface NewToken {
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly derivation_salt: Uint8Array
  readonly key_id: string
  readonly expires_at: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Claims the credential, reserves the identity and stores the challenge, or does nothing and returns nothing. */
  const openChallenge = (ask: Ask, challenge: NewChallenge, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ challenge_id: Schema.String }))(sql`
      with credential as materialized (
        select c.credential_id, c.project_id, c.reenroll_bridge_id
          from bridge_enrollment_credential c
          join project p on p.project_id = c.project_id
         where c.credential_hash = ${ask.credential_hash}
           and c.project_id = ${ask.project_id}::uuid
           and c.revoked_at is null
           and c.expires_at > ${now}
           and p.disabled_at is null
           and coalesce(c.reenroll_bridge_id, ${ask.bridge_id}) = ${ask.bridge_id}
           and (c.claimed_at is null
                or (c.claimed_bridge_id = ${ask.bridge_id}
                    and c.claimed_device_id = ${ask.device_id}
                    and c.claimed_fingerprint = ${ask.public_key_fingerprint}
                    and c.challenge_expires_at <= ${now}))
           and not exists (
             select 1
               from enrollment_challenge h
              where h.credential_id = c.credential_id
                and (h.idempotency_key_hash = ${ask.idempotency_key_hash} or h.consumed_at is not null))
           for no key update of c
      ), reserved as (
        insert into bridge_identity as i (
          identity_id, project_id, bridge_id, status, device_id, display_name, public_key_fingerprint,
          account_references, challenge_expires_at, created_at)
        select ${challenge.identity_id}::uuid, project_id, ${ask.bridge_id}, 'pending', ${ask.device_id},
               ${ask.display_name}, ${ask.public_key_fingerprint}, '{}', ${challenge.expires_at}::timestamptz,
               ${now}::timestamptz
          from credential
         where reenroll_bridge_id is null
            on conflict (project_id, bridge_id) do update
           set device_id = excluded.device_id,
               display_name = excluded.display_name,
               public_key_fingerprint = excluded.public_key_fingerprint,
               challenge_expires_at = greatest(i.challenge_expires_at, excluded.challenge_expires_at)
         where i.status = 'pending'
           and (i.public_key_fingerprint = excluded.public_key_fingerprint or i.challenge_expires_at <= ${now})
        returning i.identity_id
      ), returning_bridge as (
        update bridge_identity i
           set challenge_expires_at = ${challenge.expires_at}
          from credential c
         where i.project_id = c.project_id
           and i.bridge_id = c.reenroll_bridge_id
           and i.status = 'active'
           and i.enrolled_credential_id is distinct from c.credential_id
        returning i.identity_id
      ), challenge as (
        insert into enrollment_challenge (
          challenge_id, credential_id, identity_id, device_id, display_name, public_key_fingerprint,
          idempotency_key_hash, request_hash, nonce_hash, derivation_salt, key_id, created_at, expires_at)
        select ${challenge.challenge_id}::uuid, c.credential_id, i.identity_id, ${ask.device_id}, ${ask.display_name},
               ${ask.public_key_fingerprint}, ${ask.idempotency_key_hash}::bytea, ${ask.request_hash}::bytea,
               ${challenge.nonce_hash}::bytea, ${challenge.derivation_salt}::bytea, ${challenge.key_id},
               ${now}::timestamptz, ${challenge.expires_at}::timestamptz
          from credential c
         cross join (select identity_id from reserved union all select identity_id from returning_bridge) i
        returning challenge_id, credential_id
      ), claimed as (
        update bridge_enrollment_credential c
           set claimed_at = coalesce(c.claimed_at, ${now}),
               claimed_bridge_id = ${ask.bridge_id},
               claimed_device_id = ${ask.device_id},
               claimed_fingerprint = ${ask.public_key_fingerprint},
               challenge_expires_at = ${challenge.expires_at}
          from challenge
         where c.credential_id = challenge.credential_id
        returning c.project_id, c.credential_id, c.claimed_bridge_id as bridge_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.challenge_created",
        from: "claimed",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('credential_id', credential_id, 'bridge_id', bridge_id,
                                        'challenge_id', ${challenge.challenge_id}::text)`
      })})
      select challenge_id from challenge`)

  const findCredential = (ask: Ask) =>
    firstRow(CredentialState)(sql`
      select c.credential_id, c.project_id, c.reenroll_bridge_id, c.expires_at,
             c.revoked_at is not null or p.disabled_at is not null as revoked,
             c.claimed_bridge_id, c.claimed_device_id, c.claimed_fingerprint, c.challenge_expires_at,
             exists (select 1
                       from enrollment_challenge h
                      where h.credential_id = c.credential_id
                        and h.consumed_at is not null) as consumed,
             i.status as identity_status, i.public_key_fingerprint as identity_fingerprint,
             i.challenge_expires_at as identity_reserved_until
        from bridge_enrollment_credential c
        join project p on p.project_id = c.project_id
        left join bridge_identity i on i.project_id = c.project_id and i.bridge_id = ${ask.bridge_id}
       where c.credential_hash = ${ask.credential_hash}`)

  const findEarlierChallenge = (ask: Ask) =>
    firstRow(EarlierChallenge)(sql`
      select h.challenge_id, h.request_hash, h.nonce_hash, h.derivation_salt, h.key_id, h.expires_at
        from enrollment_challenge h
        join bridge_enrollment_credential c on c.credential_id = h.credential_id
       where c.credential_hash = ${ask.credential_hash}
         and h.idempotency_key_hash = ${ask.idempotency_key_hash}`)

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

  /** Consumes the challenge, activates the identity and stores its token, or does nothing and returns nothing. */
  const enroll = (
    proof: { readonly challenge_id: string; readonly key_hash: Uint8Array; readonly request_hash: Uint8Array },
    token: NewToken,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ token_id: Schema.String }))(sql`
      with locked as materialized (
        select i.identity_id, i.project_id, i.bridge_id, i.pending_rotation_id, h.challenge_id, h.credential_id,
               h.device_id, h.display_name, h.public_key_fingerprint, c.account_references
          from bridge_identity i
          join enrollment_challenge h on h.identity_id = i.identity_id
          join bridge_enrollment_credential c on c.credential_id = h.credential_id
          join project p on p.project_id = i.project_id
         where h.challenge_id = ${proof.challenge_id}::uuid
           and h.consumed_at is null
           and h.expires_at > ${now}
           and c.revoked_at is null
           and p.disabled_at is null
           and (i.status = 'pending'
                or (i.status = 'active' and c.reenroll_bridge_id is not null
                    and i.enrolled_credential_id is distinct from c.credential_id))
           for no key update of i, h
      ), cleared as materialized (
        -- A rotation newer than this statement's snapshot would be missed below: then nothing happens, and the caller
        -- runs the statement again.
        select * from locked
         where pending_rotation_id is null
            or exists (select 1 from bridge_rotation r where r.rotation_id = locked.pending_rotation_id)
      ), cancelled as (
        update bridge_rotation r
           set state = case when r.confirmation_expires_at <= ${now} then 'expired' else 'cancelled' end,
               ended_at = least(r.confirmation_expires_at, ${now})
          from cleared
         where r.rotation_id = cleared.pending_rotation_id
           and r.state = 'pending'
        returning r.rotation_id
      ), replaced as (
        update bridge_token t
           set state = case when t.expires_at <= ${now} then 'expired' else 'revoked' end,
               ended_at = least(t.expires_at, ${now}),
               end_reason = case when t.expires_at <= ${now} then 'expired' else 'reenrolled' end
          from cleared
         where t.identity_id = cleared.identity_id
           and t.state in ('pending', 'active')
        returning t.token_id
      ), token as (
        -- Counting makes the old token give way before the new one is inserted.
        insert into bridge_token (
          token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at)
        select ${token.token_id}::uuid, identity_id, ${token.token_hash}::bytea, 'active',
               ${token.derivation_salt}::bytea, ${token.key_id}, ${now}::timestamptz, ${token.expires_at}::timestamptz
          from cleared
         cross join (select count(*) from replaced) gone
        returning token_id
      ), consumed as (
        update enrollment_challenge h
           set consumed_at = ${now},
               proof_key_hash = ${proof.key_hash},
               proof_request_hash = ${proof.request_hash},
               token_id = token.token_id
          from cleared, token
         where h.challenge_id = cleared.challenge_id
        returning h.challenge_id
      ), enrolled as (
        update bridge_identity i
           set status = 'active',
               device_id = cleared.device_id,
               display_name = cleared.display_name,
               public_key_fingerprint = cleared.public_key_fingerprint,
               account_references = cleared.account_references,
               enrolled_credential_id = cleared.credential_id,
               enrolled_at = ${now},
               challenge_expires_at = null,
               pending_rotation_id = null
          from cleared, token
         where i.identity_id = cleared.identity_id
        returning i.project_id, i.identity_id, i.bridge_id, token.token_id, cleared.credential_id,
                  cleared.challenge_id
      ), audited as (${auditRow(sql, trace, {
        action: "bridge.enrolled",
        from: "enrolled",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('bridge_id', bridge_id, 'credential_id', credential_id,
                                        'challenge_id', challenge_id, 'token_id', token_id)`
      })}), ${notified(sql, now, {
        kind: "bridge.enrolled",
        from: "enrolled",
        event: sql`e.token_id`,
        project: sql`e.project_id`,
        about: sql`e.identity_id`
      })}
      select token_id from token`)

  /** Challenges that ended unused, and used ones whose token has ended too. */
  const purgeChallenges = (before: Date, limit: number) =>
    rows(Schema.Struct({ challenge_id: Schema.String }))(sql`
      delete from enrollment_challenge
       where challenge_id in (
         select h.challenge_id
           from enrollment_challenge h
           left join bridge_token t on t.token_id = h.token_id
          where h.expires_at < ${before}
            and (h.token_id is null or t.ended_at < ${before})
          limit ${limit})
      returning challenge_id`)

  /** Tokens that nothing refers to any more. */
  const purgeTokens = (before: Date, limit: number) =>
    rows(Schema.Struct({ token_id: Schema.String }))(sql`
      delete from bridge_token
       where token_id in (
         select t.token_id
           from bridge_token t
          where t.ended_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.token_id = t.token_id)
            and not exists (select 1 from bridge_rotation r where t.token_id in (r.predecessor_id, r.successor_id))
          limit ${limit})
      returning token_id`)

  const purgeCredentials = (before: Date, limit: number) =>
    rows(Schema.Struct({ credential_id: Schema.String }))(sql`
      delete from bridge_enrollment_credential
       where credential_id in (
         select c.credential_id
           from bridge_enrollment_credential c
          where c.expires_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.credential_id = c.credential_id)
          limit ${limit})
      returning credential_id`)

  /** Names that were asked for and never proved. */
  const purgeReservations = (before: Date, limit: number) =>
    rows(Schema.Struct({ identity_id: Schema.String }))(sql`
      delete from bridge_identity
       where identity_id in (
         select i.identity_id
           from bridge_identity i
          where i.status = 'pending'
            and i.challenge_expires_at < ${before}
            and not exists (select 1 from enrollment_challenge h where h.identity_id = i.identity_id)
          limit ${limit}
            for update skip locked)
      returning identity_id`)

  return {
    purgeChallenges,
    purgeTokens,
    purgeCredentials,
    purgeReservations,
    openChallenge,
    findCredential,
    findEarlierChallenge,
    findChallenge,
    enroll
  }
}
