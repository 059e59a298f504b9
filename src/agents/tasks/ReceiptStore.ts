/** The statements of work-session receipts. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const Status = Schema.Literals(["open", "in_progress", "blocked", "done", "cancelled"])
const GitCheckpoint = Schema.Struct({
  repository: Schema.String,
  branch: Schema.String,
  commit_sha: Schema.String,
  base_sha: Schema.optionalKey(Schema.String),
  dirty: Schema.Boolean,
  pushed: Schema.optionalKey(Schema.Boolean)
})

const Receipt = Schema.Struct({
  id: Schema.String,
  task_id: Schema.String,
  session_ref: Schema.String,
  worker: Schema.String,
  thread: Schema.NullOr(Schema.String),
  outcome: Schema.Literals(["progress", "handoff", "completed", "blocked"]),
  summary: Schema.String,
  next_steps: Schema.Array(Schema.String),
  pitfalls: Schema.Array(Schema.String),
  git_checkpoint: Schema.NullOr(GitCheckpoint),
  task_version_after: Schema.Int,
  task_status_after: Status,
  actor: Schema.String,
  created_at: Schema.Date
})
export type Receipt = typeof Receipt.Type

export const make = (sql: SqlClient.SqlClient) => {
  const receiptColumns = sql.literal(
    `id, task_id, session_ref, worker, thread, outcome, summary, next_steps, pitfalls, git_checkpoint,
     task_version_after, task_status_after, actor, created_at`
  )

  /** For each row of `from`, unless the session has one for the task already. */
  const insert = (receipt: Receipt, from: string) => sql`
    insert into receipt (
      project_id, id, task_id, session_ref, worker, thread, outcome, summary, next_steps, pitfalls, git_checkpoint,
      task_version_after, task_status_after, actor, created_at)
    select project_id, ${receipt.id}::uuid, id, ${receipt.session_ref}, ${receipt.worker}, ${receipt.thread},
           ${receipt.outcome}, ${receipt.summary}, ${receipt.next_steps}::text[], ${receipt.pitfalls}::text[],
           ${receipt.git_checkpoint === null ? null : JSON.stringify(receipt.git_checkpoint)}::jsonb,
           ${receipt.task_version_after}::int, ${receipt.task_status_after}, ${receipt.actor},
           ${receipt.created_at}::timestamptz
      from ${sql.literal(from)}
        on conflict (project_id, task_id, session_ref) do nothing
    returning id`

  const ofTask = (project_id: string, task_id: string, limit: number) =>
    rows(Receipt)(sql`
      select ${receiptColumns}
        from receipt
       where project_id = ${project_id}::uuid
         and task_id = ${task_id}::uuid
       order by created_at desc, id desc
       limit ${limit}`)

  const recent = (project_id: string, limit: number) =>
    rows(Receipt)(sql`
      select ${receiptColumns}
        from receipt
       where project_id = ${project_id}::uuid
       order by created_at desc, id desc
       limit ${limit}`)

  const count = (project_id: string) =>
    firstRow(Schema.Struct({ count: Schema.Int }))(sql`
      select count(*)::int as count
        from receipt
       where project_id = ${project_id}::uuid`)

  return { insert, ofTask, recent, count }
}
