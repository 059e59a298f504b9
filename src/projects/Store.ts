/** The statements of projects and their approved account references. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../wire/Rows.ts"

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

export const make = (sql: SqlClient.SqlClient) => {
  const insert = (project_id: string, name: string, now: Date) => sql`
    insert into project (project_id, name, created_at)
    values (${project_id}::uuid, ${name}, ${now})`

  const list = rows(Project)(sql`
    select project_id, name, created_at, disabled_at
      from project
     order by created_at, project_id`)

  const find = (project_id: string) =>
    firstRow(Project)(sql`
      select project_id, name, created_at, disabled_at
        from project
       where project_id = ${project_id}::uuid`)

  const setDisabled = (project_id: string, disabled_at: Date | null) =>
    firstRow(Project)(sql`
      update project
         set disabled_at = ${disabled_at === null ? null : sql`coalesce(disabled_at, ${disabled_at})`}
       where project_id = ${project_id}::uuid
      returning project_id, name, created_at, disabled_at`)

  const approve = (project_id: string, reference: string, label: string | null, now: Date) => sql`
    insert into approved_account_reference as a (project_id, reference, label, approved_at)
    values (${project_id}::uuid, ${reference}, ${label}, ${now})
        on conflict (project_id, reference) do update
       set label = coalesce(excluded.label, a.label),
           approved_at = case when a.withdrawn_at is null then a.approved_at else excluded.approved_at end,
           withdrawn_at = null`

  const listReferences = (project_id: string) =>
    rows(AccountReference)(sql`
      select reference, label, approved_at, withdrawn_at
        from approved_account_reference
       where project_id = ${project_id}::uuid
       order by reference`)

  const withdraw = (project_id: string, reference: string, now: Date) =>
    firstRow(Schema.Struct({ reference: Schema.String }))(sql`
      update approved_account_reference
         set withdrawn_at = coalesce(withdrawn_at, ${now})
       where project_id = ${project_id}::uuid
         and reference = ${reference}
      returning reference`)

  /** Credentials that nobody has used yet and that would carry the reference on. */
  const revokeUnclaimedCredentials = (project_id: string, reference: string, now: Date) =>
    rows(Schema.Struct({ credential_id: Schema.String }))(sql`
      update bridge_enrollment_credential
         set revoked_at = ${now}
       where project_id = ${project_id}::uuid
         and ${reference} = any (account_references)
         and claimed_at is null
         and revoked_at is null
      returning credential_id`)

  return { insert, list, find, setDisabled, approve, listReferences, withdraw, revokeUnclaimedCredentials }
}
