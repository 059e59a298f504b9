/** The statements of the audit log. Rows are only added; the repeats of a refusal within a minute are counted beside it. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Trace } from "../sql/AuditRow.ts"
import { rows } from "../sql/Rows.ts"
import type { Page } from "../sql/Page.ts"

export const AuditEvent = Schema.Struct({
  event_id: Schema.String,
  at: Schema.Date,
  action: Schema.String,
  outcome: Schema.Literals(["done", "refused"]),
  code: Schema.NullOr(Schema.String),
  actor: Schema.String,
  project_id: Schema.NullOr(Schema.String),
  subject: Schema.Record(Schema.String, Schema.Unknown),
  address: Schema.String,
  user_agent: Schema.String,
  count: Schema.Int
})
export type AuditEvent = typeof AuditEvent.Type

export interface Event {
  readonly action: string
  readonly project_id: string | null
  /** `kind:id`, or `operator:account@host`. */
  readonly actor: string
  /** Ids only. */
  readonly subject: Readonly<Record<string, string>>
}

export const make = (sql: SqlClient.SqlClient) => {
  const insertDone = (event: Event, trace: Trace) => sql`
    insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
    values (${trace.event_id}::uuid, ${trace.at}, ${event.project_id}::uuid, ${event.actor}, ${event.action}, 'done',
            ${JSON.stringify(event.subject)}::jsonb, ${trace.address}, ${trace.user_agent})`

  /** One row for all events of a key, with their number. */
  const count = (event: Event & { readonly code?: string }, refusal_key: string, trace: Trace) => sql`
    with counted as (
      insert into audit_refusal_count (refusal_key, event_id, at)
      values (${refusal_key}, ${trace.event_id}::uuid, ${trace.at})
          on conflict (refusal_key) do update
         set count = audit_refusal_count.count + 1
      returning event_id
    )
    insert into audit_event (event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent)
    select event_id, ${trace.at}::timestamptz, ${event.project_id}::uuid, ${event.actor}::text, ${event.action}::text,
           ${event.code === undefined ? "done" : "refused"}, ${event.code ?? null}::text, ${JSON.stringify(event.subject)}::jsonb, ${trace.address}::text,
           ${trace.user_agent}::text
      from counted
     where event_id = ${trace.event_id}::uuid`

  /** Newest first. */
  const list = (project_id: string | undefined, { after, limit }: Page) => {
    const listed = project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`
    return rows(AuditEvent)(sql`
      select event_id, at, action, outcome, code, actor, project_id, subject, address, user_agent,
             coalesce((select count from audit_refusal_count c where c.event_id = e.event_id), 1) as count
        from audit_event e
       where ${listed}
         and ${
           after === undefined
             ? sql`true`
             : sql`(at, event_id) < ((select at from audit_event where event_id = ${after}::uuid and ${listed}), ${after}::uuid)`
         }
       order by at desc, event_id desc
       limit ${limit}`)
  }

  return { insertDone, count, list }
}
