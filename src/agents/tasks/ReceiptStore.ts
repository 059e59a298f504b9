/** Reads work-session receipts. TaskStore.ts inserts them, in the statement that updates the task. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { type Belonging, make as makeBelonging, readFor } from "./Belonging.ts"
import { Receipt } from "./Shapes.ts"

const ReceiptRow = Schema.toType(Receipt)

export const make = (sql: SqlClient.SqlClient) => {
  const belonging = makeBelonging(sql)
  const receiptColumns = sql.literal(
    `id, task_id, session_ref, worker, thread, outcome, summary, next_steps, pitfalls, git_checkpoint,
     task_version_after, task_status_after, actor, created_at`
  )

  /** Newest first, from the one before `after` on. */
  const ofTask = (project_id: string, task_id: string, { after, limit }: Page) =>
    rows(ReceiptRow)(sql`
      select ${receiptColumns}
        from receipt
       where project_id = ${project_id}::uuid
         and task_id = ${task_id}::uuid
         and ${
           after === undefined
             ? sql`true`
             : sql`(created_at, id) < (
                 select created_at, id
                   from receipt
                  where project_id = ${project_id}::uuid
                    and id = ${after}::uuid)`
         }
       order by created_at desc, id desc
       limit ${limit}`)

  /** The newest that the filter lets through. */
  const recent = (project_id: string, filter: Belonging, limit: number) =>
    rows(ReceiptRow)(sql`
      select ${receiptColumns}
        from (select *
                from receipt
               where project_id = ${project_id}::uuid
               order by created_at desc, id desc
               limit ${readFor(filter, limit)}) r
       where ${belonging.ofReceipt(filter)}
       order by created_at desc, id desc
       limit ${limit}`)

  /** No row: none. */
  const count = (project_id: string) =>
    firstRow(Schema.Struct({ count: Schema.Int }))(sql`
      select receipts::int as count
        from project_usage
       where project_id = ${project_id}::uuid`)

  return { ofTask, recent, count }
}
