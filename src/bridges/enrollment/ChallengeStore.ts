/**
 * The statements of creating a challenge.
 *
 * All of enrollment takes locks in one order: credential, identity, challenge, token. A statement decides only on rows
 * that it has locked. If a condition fails, it returns no row, and the caller reads why.
 */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { asked, inPlace, type Locking, Placed } from "../../platform/sql/Asked.ts"
import { auditRow, type Trace, traceColumns, traceTypes } from "../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

export const CredentialState = Schema.Struct({
  credential_id: Schema.String,
  project_id: Schema.String,
  reenroll_bridge_id: Schema.NullOr(Schema.String),
  expires_at: Schema.Date,
  revoked: Schema.Boolean,
  claimed_bridge_id: Schema.NullOr(Schema.String),
  claimed_device_id: Schema.NullOr(Schema.String),
  claimed_fingerprint: Schema.NullOr(Schema.String),
  challenge_expires_at: Schema.NullOr(Schema.Date),
  consumed: Schema.Boolean,
  identity_status: Schema.NullOr(Schema.Literals(["pending", "active", "revoked"])),
  identity_fingerprint: Schema.NullOr(Schema.String),
  identity_reserved_until: Schema.NullOr(Schema.Date)
})
export type CredentialState = typeof CredentialState.Type

/** The challenge that was created with this credential and Idempotency-Key. */
export const EarlierChallenge = Schema.Struct({
  challenge_id: Schema.String,
  request_hash: Schema.Uint8Array,
  nonce_hash: Schema.Uint8Array,
  derivation_salt: Schema.Uint8Array,
  key_id: Schema.String,
  expires_at: Schema.Date
})

interface Claim {
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

export interface Opening {
  readonly claim: Claim
  readonly challenge: NewChallenge
  readonly trace: Trace
}

const types = {
  credential_hash: "bytea",
  project_id: "uuid",
  bridge_id: "text",
  device_id: "text",
  display_name: "text",
  public_key_fingerprint: "text",
  idempotency_key_hash: "bytea",
  request_hash: "bytea",
  challenge_id: "uuid",
  identity_id: "uuid",
  nonce_hash: "bytea",
  derivation_salt: "bytea",
  key_id: "text",
  expires_at: "timestamptz",
  ...traceTypes
} as const

const valuesOf = ({ challenge, claim, trace }: Opening) => ({ ...claim, ...challenge, ...trace })

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * For each request, claims the credential, reserves the identity and stores the challenge, in one statement. A request has
   * no result, and changes nothing, unless all conditions hold. One that does not wait also has none unless it is the first
   * to reserve its identity: other reservations need a lock on what is there.
   */
  const openChallenge = (all: ReadonlyArray<Opening>, locking: Locking) => {
    const reservedAgain = sql`
            on conflict (project_id, bridge_id) do update
           set device_id = excluded.device_id,
               display_name = excluded.display_name,
               public_key_fingerprint = excluded.public_key_fingerprint,
               challenge_expires_at = greatest(i.challenge_expires_at, excluded.challenge_expires_at)
         where i.status = 'pending'
           and (i.public_key_fingerprint = excluded.public_key_fingerprint
                or i.challenge_expires_at <= excluded.created_at)`
    return Effect.map(
      rows(Placed)(sql`
      with asked as (${asked(sql, types, "credential_hash", all.map(valuesOf))}
      ), credential as materialized (
        select asked.*, found.*
          from asked
         cross join lateral (
           select c.credential_id, c.reenroll_bridge_id
             from bridge_enrollment_credential c
             join project p on p.project_id = c.project_id
            where c.credential_hash = asked.credential_hash
              and c.project_id = asked.project_id
              and c.revoked_at is null
              and c.expires_at > asked.at
              and p.disabled_at is null
              and coalesce(c.reenroll_bridge_id, asked.bridge_id) = asked.bridge_id
              and ${locking === "" ? sql`true` : sql`c.reenroll_bridge_id is null`}
              and (c.claimed_at is null
                   or (c.claimed_bridge_id = asked.bridge_id
                       and c.claimed_device_id = asked.device_id
                       and c.claimed_fingerprint = asked.public_key_fingerprint
                       and c.challenge_expires_at <= asked.at))
              and not exists (
                select 1
                  from enrollment_challenge h
                 where h.credential_id = c.credential_id
                   and (h.idempotency_key_hash = asked.idempotency_key_hash or h.consumed_at is not null))
           offset 0
              for no key update of c ${sql.literal(locking)}) found
      ), reserved as (
        insert into bridge_identity as i (
          identity_id, project_id, bridge_id, status, device_id, display_name, public_key_fingerprint,
          account_references, challenge_expires_at, created_at)
        select identity_id, project_id, bridge_id, 'pending', device_id, display_name, public_key_fingerprint, '{}',
               expires_at, at
          from credential
         where reenroll_bridge_id is null
         -- In one order, so that two statements with the same identities wait for each other only one way.
         order by project_id, bridge_id
            ${locking === "" ? reservedAgain : sql`on conflict (project_id, bridge_id) do nothing`}
        returning i.identity_id, i.project_id, i.bridge_id
      ), returning_bridge as (
        update bridge_identity i
           set challenge_expires_at = c.expires_at
          from credential c
         where i.project_id = c.project_id
           and i.bridge_id = c.reenroll_bridge_id
           and i.status = 'active'
           and i.enrolled_credential_id is distinct from c.credential_id
        returning i.identity_id, i.project_id, i.bridge_id
      ), opened as materialized (
        select c.*, i.identity_id as reserved_id
          from credential c
          join (select * from reserved union all select * from returning_bridge) i using (project_id, bridge_id)
         -- Of two credentials in one statement that ask for one Bridge, the other tries again alone, and is refused.
         where ${locking === "" ? sql`true` : sql`i.identity_id = c.identity_id`}
      ), challenge as (
        insert into enrollment_challenge (
          challenge_id, credential_id, identity_id, device_id, display_name, public_key_fingerprint,
          idempotency_key_hash, request_hash, nonce_hash, derivation_salt, key_id, created_at, expires_at)
        select challenge_id, credential_id, reserved_id, device_id, display_name, public_key_fingerprint,
               idempotency_key_hash, request_hash, nonce_hash, derivation_salt, key_id, at, expires_at
          from opened
      ), claimed as (
        update bridge_enrollment_credential c
           set claimed_at = coalesce(c.claimed_at, opened.at),
               claimed_bridge_id = opened.bridge_id,
               claimed_device_id = opened.device_id,
               claimed_fingerprint = opened.public_key_fingerprint,
               challenge_expires_at = opened.expires_at
          from opened
         where c.credential_id = opened.credential_id
      ), audited as (${auditRow(sql, traceColumns(sql), {
        action: "bridge.challenge_created",
        from: "opened",
        project: sql`project_id`,
        actor: sql`'bridge:' || bridge_id`,
        subject: sql`jsonb_build_object('credential_id', credential_id, 'bridge_id', bridge_id,
                                        'challenge_id', challenge_id)`
      })})
      select place::int as place from opened`),
      inPlace(all.length)
    )
  }

  const findCredential = (claim: Claim) =>
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
        left join bridge_identity i on i.project_id = c.project_id and i.bridge_id = ${claim.bridge_id}
       where c.credential_hash = ${claim.credential_hash}`)

  const findEarlierChallenge = (claim: Claim) =>
    firstRow(EarlierChallenge)(sql`
      select h.challenge_id, h.request_hash, h.nonce_hash, h.derivation_salt, h.key_id, h.expires_at
        from enrollment_challenge h
        join bridge_enrollment_credential c on c.credential_id = h.credential_id
       where c.credential_hash = ${claim.credential_hash}
         and h.idempotency_key_hash = ${claim.idempotency_key_hash}`)

  return { openChallenge, findCredential, findEarlierChallenge }
}
