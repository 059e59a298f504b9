/** The statements of projects and their approved account references. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import type { Page } from "../../platform/sql/Page.ts"

export const Project = Schema.Struct({
  project_id: Schema.String,
  name: Schema.String,
  created_at: Schema.Date,
  disabled_at: Schema.NullOr(Schema.Date)
})

export const AccountReference = Schema.Struct({
  reference: Schema.String,
  label: Schema.NullOr(Schema.String),
  approved_at: Schema.Date,
  withdrawn_at: Schema.NullOr(Schema.Date)
})

const CredentialId = Schema.Struct({ credential_id: Schema.String })

export const make = (sql: SqlClient.SqlClient) => {
  /** Inserts and returns nothing if the project exists. */
  const insert = (project_id: string, name: string, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.String }))(sql`
      insert into project (project_id, name, created_at)
      values (${project_id}::uuid, ${name}, ${now})
          on conflict do nothing
      returning project_id`)

  const list = ({ after, limit }: Page) =>
    rows(Project)(sql`
      select project_id, name, created_at, disabled_at
        from project
       where ${after === undefined ? sql`true` : sql`project_id > ${after}::uuid`}
         and deleted_at is null
       order by project_id
       limit ${limit}`)

  const names = (ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ project_id: Schema.String, name: Schema.String }))(sql`
      select project_id, name
        from project
       where project_id = any (${ids}::uuid[])`)

  const find = (project_id: string) =>
    firstRow(Project)(sql`
      select project_id, name, created_at, disabled_at
        from project
       where project_id = ${project_id}::uuid`)

  /** Enabling a project also calls off its deletion, unless that has begun (ErasureStore.ts). */
  const setDisabled = (project_id: string, disabled_at: Date | null) =>
    firstRow(Schema.Struct({ ...Project.fields, changed: Schema.Boolean, begun: Schema.Boolean }))(sql`
      with found as materialized (
        select project_id, disabled_at, coalesce(delete_after <= disabled_at, false) as begun
          from project
         where project_id = ${project_id}::uuid
           and deleted_at is null
           for no key update
      )
      update project p
         set disabled_at = ${disabled_at === null ? null : sql`coalesce(p.disabled_at, ${disabled_at})`},
             delete_after = ${disabled_at === null ? null : sql`p.delete_after`}
        from found
       where p.project_id = found.project_id
      returning p.project_id, p.name, p.created_at, p.disabled_at,
                p.disabled_at is distinct from found.disabled_at as changed, found.begun`)

  /** Changes nothing if the reference is approved already with the same label. */
  const approve = (project_id: string, reference: string, label: string | null, now: Date) =>
    rows(Schema.Struct({ reference: Schema.String }))(sql`
      insert into approved_account_reference as a (project_id, reference, label, approved_at)
      values (${project_id}::uuid, ${reference}, ${label}, ${now})
          on conflict (project_id, reference) do update
         set label = coalesce(excluded.label, a.label),
             approved_at = case when a.withdrawn_at is null then a.approved_at else excluded.approved_at end,
             withdrawn_at = null
       where a.withdrawn_at is not null
          or a.label is distinct from coalesce(excluded.label, a.label)
      returning reference`)

  const findReference = (project_id: string, reference: string) =>
    firstRow(AccountReference)(sql`
      select reference, label, approved_at, withdrawn_at
        from approved_account_reference
       where project_id = ${project_id}::uuid
         and reference = ${reference}`)

  const listReferences = (project_id: string, { after, limit }: Page) =>
    rows(AccountReference)(sql`
      select reference, label, approved_at, withdrawn_at
        from approved_account_reference
       where project_id = ${project_id}::uuid
         and ${after === undefined ? sql`true` : sql`reference > ${after}`}
       order by reference
       limit ${limit}`)

  const withdraw = (project_id: string, reference: string, now: Date) =>
    firstRow(Schema.Struct({ first: Schema.Boolean }))(sql`
      with found as materialized (
        select reference, withdrawn_at
          from approved_account_reference
         where project_id = ${project_id}::uuid
           and reference = ${reference}
           for no key update
      )
      update approved_account_reference a
         set withdrawn_at = coalesce(a.withdrawn_at, ${now})
        from found
       where a.project_id = ${project_id}::uuid
         and a.reference = found.reference
      returning found.withdrawn_at is null as first`)

  /** No proof has used the credential. Its alias is `c`. */
  const unproved = sql`
    not exists (
      select 1
        from enrollment_challenge h
       where h.credential_id = c.credential_id
         and h.consumed_at is not null)`

  /** Locks the credentials that carry the reference and could still enroll a Bridge. */
  const lockUnproved = (project_id: string, reference: string) =>
    rows(CredentialId)(sql`
      select c.credential_id
        from bridge_enrollment_credential c
       where c.project_id = ${project_id}::uuid
         and ${reference} = any (c.account_references)
         and c.revoked_at is null
         and ${unproved}
       order by c.credential_id
         for no key update of c`)

  /** Revokes those of the credentials that no proof has used meanwhile. */
  const revokeUnproved = (credential_ids: ReadonlyArray<string>, now: Date) =>
    rows(CredentialId)(sql`
      update bridge_enrollment_credential c
         set revoked_at = ${now}
       where c.credential_id = any (${credential_ids}::uuid[])
         and ${unproved}
      returning c.credential_id`)

  return {
    insert,
    list,
    find,
    names,
    setDisabled,
    approve,
    findReference,
    listReferences,
    withdraw,
    lockUnproved,
    revokeUnproved
  }
}
