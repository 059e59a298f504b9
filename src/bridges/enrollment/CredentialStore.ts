/** The statements of the operator's commands for bootstrap credentials. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import type { Page } from "../../platform/sql/Page.ts"

export const Credential = Schema.Struct({
  credential_id: Schema.String,
  account_references: Schema.Array(Schema.String),
  reenroll_bridge_id: Schema.NullOr(Schema.String),
  status: Schema.Literals(["unused", "claimed", "enrolled", "revoked", "expired"]),
  claimed_bridge_id: Schema.NullOr(Schema.String),
  claimed_at: Schema.NullOr(Schema.Date),
  created_at: Schema.Date,
  expires_at: Schema.Date
})

/** A credential with which a Bridge may still enroll. */
export const Waiting = Schema.Struct({ ...Credential.fields, project_id: Schema.String })

export interface NewCredential {
  readonly credential_id: string
  readonly credential_hash: Uint8Array
  readonly project_id: string
  readonly account_references: ReadonlyArray<string>
  readonly reenroll_bridge_id: string | null
  readonly expires_at: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  const findProject = (project_id: string) =>
    firstRow(Schema.Struct({ disabled: Schema.Boolean }))(sql`
      select disabled_at is not null as disabled
        from project
       where project_id = ${project_id}::uuid
         and deleted_at is null`)

  /**
   * Selects and locks the approved references among `references`: a concurrent withdrawal waits until the credential
   * exists, and then revokes it.
   */
  const lockApproved = (project_id: string, references: ReadonlyArray<string>) =>
    rows(Schema.Struct({ reference: Schema.String }))(sql`
      select reference
        from approved_account_reference
       where project_id = ${project_id}::uuid
         and reference = any (${references}::text[])
         and withdrawn_at is null
       order by reference
         for share`)

  const findIdentityStatus = (project_id: string, bridge_id: string) =>
    firstRow(Schema.Struct({ status: Schema.Literals(["pending", "active", "revoked"]) }))(sql`
      select status
        from bridge_identity
       where project_id = ${project_id}::uuid
         and bridge_id = ${bridge_id}`)

  const findIssued = (credential_hash: Uint8Array) =>
    firstRow(Schema.Struct({ project_id: Schema.String, expires_at: Schema.Date }))(sql`
      select project_id, expires_at
        from bridge_enrollment_credential
       where credential_hash = ${credential_hash}`)

  /** Waits for a concurrent insert of the same credential; returns no row if the other insert committed. */
  const insert = (credential: NewCredential, now: Date) =>
    rows(Schema.Struct({ credential_id: Schema.String }))(sql`
      insert into bridge_enrollment_credential (
        credential_id, credential_hash, project_id, account_references, reenroll_bridge_id, created_at, expires_at)
      values (${credential.credential_id}::uuid, ${credential.credential_hash}, ${credential.project_id}::uuid,
              ${credential.account_references}::text[], ${credential.reenroll_bridge_id}, ${now},
              ${credential.expires_at})
          on conflict do nothing
      returning credential_id`)

  const list = (project_id: string, { after, limit }: Page, now: Date, status?: (typeof Credential.Type)["status"]) =>
    rows(Credential)(sql`
      select * from (
      select c.credential_id, c.account_references, c.reenroll_bridge_id,
             case when exists (select 1
                                 from enrollment_challenge h
                                where h.credential_id = c.credential_id
                                  and h.consumed_at is not null) then 'enrolled'
                  when c.revoked_at is not null then 'revoked'
                  when c.expires_at <= ${now} then 'expired'
                  when c.claimed_at is not null then 'claimed'
                  else 'unused' end as status,
             c.claimed_bridge_id, c.claimed_at, c.created_at, c.expires_at
        from bridge_enrollment_credential c
       where c.project_id = ${project_id}::uuid
         and ${after === undefined ? sql`true` : sql`c.credential_id > ${after}::uuid`}
      ) listed
       where ${status === undefined ? sql`true` : sql`status = ${status}`}
       order by credential_id
       limit ${limit}`)

  /** Of every project that may work: unused or claimed, the first to expire first. */
  const listWaiting = ({ after, limit }: Page, now: Date) =>
    rows(Waiting)(sql`
      select c.credential_id, c.project_id, c.account_references, c.reenroll_bridge_id,
             case when c.claimed_at is null then 'unused' else 'claimed' end as status,
             c.claimed_bridge_id, c.claimed_at, c.created_at, c.expires_at
        from bridge_enrollment_credential c
        join project p on p.project_id = c.project_id and p.disabled_at is null
       where c.revoked_at is null
         and c.expires_at > ${now}
         and not exists (select 1
                           from enrollment_challenge h
                          where h.credential_id = c.credential_id
                            and h.consumed_at is not null)
         and ${
           after === undefined
             ? sql`true`
             : sql`(c.expires_at, c.credential_id) >
                   ((select expires_at from bridge_enrollment_credential where credential_id = ${after}::uuid),
                    ${after}::uuid)`
         }
       order by c.expires_at, c.credential_id
       limit ${limit}`)

  const revoke = (credential_id: string, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.String, revoked_at: Schema.Date, first: Schema.Boolean }))(sql`
      with found as materialized (
        select credential_id, revoked_at
          from bridge_enrollment_credential
         where credential_id = ${credential_id}::uuid
           for no key update
      )
      update bridge_enrollment_credential c
         set revoked_at = coalesce(c.revoked_at, ${now})
        from found
       where c.credential_id = found.credential_id
      returning c.project_id, c.revoked_at, found.revoked_at is null as first`)

  return {
    findProject,
    lockApproved,
    findIdentityStatus,
    findIssued,
    insert,
    list,
    listWaiting,
    revoke
  }
}
