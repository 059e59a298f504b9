/** Statements for what happened in a project: each part is read by its own index, the newest first. */
import { Schema, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"
import { Receipt } from "../tasks/Shapes.ts"
import { Happened, type HappenedKind } from "./Shapes.ts"

const HappenedRow = Schema.toType(Happened.mapFields(Struct.assign({ text: Schema.String })))
export type HappenedRow = typeof HappenedRow.Type
const ReceiptRow = Schema.toType(Receipt)

export type After = readonly [at: string, id: string] | undefined

export interface ReceiptFilter {
  readonly task_id?: string | undefined
  readonly worker?: string | undefined
  readonly since?: Date | undefined
}

export const make = (sql: SqlClient.SqlClient) => {
  const before = (column: string, after: After) =>
    after === undefined
      ? sql`true`
      : sql`(${sql.literal(column)}, t.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)`

  /** Returns `limit` rows, and one more if there is a next page. */
  const since = (project_id: string, since: Date, kinds: ReadonlyArray<HappenedKind>, after: After, limit: number) => {
    const part = (
      of: ReadonlyArray<HappenedKind>,
      table: string,
      at: string,
      columns: string,
      where = sql.literal("true")
    ) =>
      of.some((kind) => kinds.includes(kind))
        ? [
            sql`(
              select ${sql.literal(columns)}, t.id, t.${sql.literal(at)} as at
                from ${sql.literal(table)} t
               where t.project_id = ${project_id}::uuid
                 and t.${sql.literal(at)} >= ${since}
                 and ${where}
                 and ${before(`t.${at}`, after)}
               order by t.${sql.literal(at)} desc, t.id desc
               limit ${limit + 1})`
          ]
        : []
    const entries = (["decision", "note"] as const).flatMap((kind) =>
      part(
        [kind],
        "memory_entry",
        "created_at",
        `t.kind, t.title, left(t.body, 301) as text, t.actor, t.task_id`,
        sql`t.active and t.kind = ${kind}`
      )
    )
    const parts = [
      ...part(
        ["task"],
        "task",
        "updated_at",
        `'task' as kind, t.title, t.status as text, coalesce(t.updated_by, t.created_by) as actor, t.id as task_id`
      ),
      ...part(
        ["receipt"],
        "receipt",
        "created_at",
        `'receipt' as kind, t.outcome as title, left(t.summary, 301) as text, t.actor, t.task_id`
      ),
      ...entries,
      ...part(
        ["task_note"],
        "task_note",
        "created_at",
        `'task_note' as kind, '' as title, left(t.text, 301) as text, t.actor, t.task_id`
      )
    ]
    return rows(HappenedRow)(sql`
      select h.kind, h.id, h.at, h.title, h.text, h.actor,
             case when k.id is null then null
                  else jsonb_build_object('id', k.id, 'title', k.title, 'status', k.status, 'version', k.version) end as task
        from (${parts.reduce((all, one) => sql`${all} union all ${one}`)}) h
        left join task k on k.project_id = ${project_id}::uuid and k.id = h.task_id
       order by h.at desc, h.id desc
       limit ${limit + 1}`)
  }

  /** Newest first: `limit` rows, and one more if there is a next page. */
  const receipts = (project_id: string, { since, task_id, worker }: ReceiptFilter, after: After, limit: number) =>
    rows(ReceiptRow)(sql`
      select t.id, t.task_id, t.session_ref, t.worker, t.thread, t.outcome, t.summary, t.next_steps, t.pitfalls,
             t.git_checkpoint, t.task_version_after, t.task_status_after, t.actor, t.created_at
        from receipt t
       where t.project_id = ${project_id}::uuid
         and ${task_id === undefined ? sql`true` : sql`t.task_id = ${task_id}::uuid`}
         and ${worker === undefined ? sql`true` : sql`t.worker = ${worker}`}
         and ${since === undefined ? sql`true` : sql`t.created_at >= ${since}`}
         and ${before("t.created_at", after)}
       order by t.created_at desc, t.id desc
       limit ${limit + 1}`)

  return { since, receipts }
}
