/** Statements for idempotency keys; Sweeps.ts deletes them. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
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

  const complete = ({ idempotency_key, project_id, tool }: Key, result: string) => sql`
    update idempotency_record
       set result = ${result}
     where project_id = ${project_id}::uuid
       and tool = ${tool}
       and idempotency_key = ${idempotency_key}`

  return { reserve, find, complete }
}
