/** Statements for idempotency keys; Sweeps.ts deletes them. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { charge, type Usage } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

export interface Key {
  readonly project_id: string
  readonly tool: string
  readonly idempotency_key: string
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Waits while another transaction holds the key. Returns no row if that transaction has committed the key. */
  const reserve = ({ idempotency_key, project_id, tool }: Key, request_hash: Uint8Array, now: Date) =>
    rows(Schema.Struct({ tool: Schema.String }))(sql`
      insert into idempotency_record (project_id, tool, idempotency_key, request_hash, created_at)
      values (${project_id}::uuid, ${tool}, ${idempotency_key}, ${request_hash}, ${now})
          on conflict do nothing
      returning tool`)

  const find = ({ idempotency_key, project_id, tool }: Key) =>
    firstRow(Schema.Struct({ request_hash: Schema.Uint8Array, result: Schema.String }))(sql`
      select request_hash, result
        from idempotency_record
       where project_id = ${project_id}::uuid
         and tool = ${tool}
         and idempotency_key = ${idempotency_key}`)

  /** Writes and returns nothing if the project has no space for the result. */
  const complete = ({ idempotency_key, project_id, tool }: Key, result: string, stored_bytes: number, maxima: Usage) =>
    rows(Schema.Struct({ tool: Schema.String }))(sql`
      with completed as (select 1),
      charged as (${charge(sql, project_id, "completed", { stored_bytes }, maxima)})
      update idempotency_record r
         set result = ${result}
        from charged
       where r.project_id = charged.project_id
         and r.tool = ${tool}
         and r.idempotency_key = ${idempotency_key}
      returning r.tool`)

  return { reserve, find, complete }
}
