/** Statements for the notes on tasks. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { charge, type Usage } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { Note } from "./Shapes.ts"

export const make = (sql: SqlClient.SqlClient) => {
  /** Inserts and returns nothing if the project has no such task, or would pass one of `maxima`. */
  const insert = (project_id: string, note: Note, trace: Trace, stored_bytes: number, maxima: Usage) =>
    firstRow(Schema.Struct({ id: Schema.String }))(sql`
      with noted as materialized (
        select id
          from task
         where project_id = ${project_id}::uuid
           and id = ${note.task_id}::uuid
      ), charged as (
        ${charge(sql, project_id, "noted", { stored_bytes }, maxima)}
      ), added as (
        insert into task_note (project_id, id, task_id, text, actor, created_at)
        select charged.project_id, ${note.id}::uuid, noted.id, ${note.text}, ${note.actor}, ${note.created_at}::timestamptz
          from charged, noted
        returning project_id, id, task_id, actor
      ), audited as (${auditRow(sql, trace, {
        action: "task.noted",
        from: "added",
        project: sql`project_id`,
        actor: sql`actor`,
        subject: sql`jsonb_build_object('task_id', task_id, 'note_id', id)`
      })})
      select id from added`)

  /** Newest first. */
  const ofTask = (project_id: string, task_id: string, limit: number) =>
    rows(Schema.toType(Note))(sql`
      select id, task_id, text, actor, created_at
        from task_note
       where project_id = ${project_id}::uuid
         and task_id = ${task_id}::uuid
       order by created_at desc, id desc
       limit ${limit}`)

  return { insert, ofTask }
}
