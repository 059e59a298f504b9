/** The statements of the audit log. Rows are only added; the repeats of a refusal within a minute are counted beside it. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
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

/** Which events: what is given narrows the list. Events that were refused are few, so they are read whatever else is given. */
export interface Filter {
  readonly actions?: ReadonlyArray<string> | undefined
  /** The id of who acted, or of what the event is about: of a task, a token, a Bridge. */
  readonly about?: string | undefined
  readonly refused?: boolean | undefined
  readonly from?: Date | undefined
  /** Before this instant. */
  readonly until?: Date | undefined
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

  /**
   * Newest first. With `actions`, each of them is read by index, of the project or of `about`: a page reads at most
   * `limit` rows of each, however long the log is.
   */
  const list = (project_id: string | undefined, { after, limit }: Page, filter: Filter = {}) => {
    const { about, actions, from, refused, until } = filter
    const listed = project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`
    const within = sql`
      ${listed}
      and ${refused === true ? sql`outcome = 'refused'` : sql`true`}
      and ${from === undefined ? sql`true` : sql`at >= ${from}`}
      and ${until === undefined ? sql`true` : sql`at < ${until}`}
      and ${
        after === undefined
          ? sql`true`
          : sql`(at, event_id) < ((select at from audit_event where event_id = ${after}::uuid and ${listed}), ${after}::uuid)`
      }`
    const newest = sql`order by at desc, event_id desc limit ${limit}`
    const ofAction = (which: Statement.Fragment) =>
      sql`(select at, event_id from audit_event where action = kind.action and ${which} and ${within} ${newest})`
    const isAbout = about === undefined ? sql`true` : sql`${about} in ${sql.join(", ")(aboutIds)}`
    const found =
      refused === true || actions === undefined
        ? sql`select at, event_id from audit_event where ${within} and ${isAbout}`
        : sql`
          select one.at, one.event_id
            from unnest(${actions}::text[]) kind (action)
           cross join lateral (${
             about === undefined
               ? ofAction(sql`true`)
               : sql.join(" union ", false)(aboutIds.map((id) => ofAction(sql`${id} = ${about}`)))
           }) one`
    return rows(AuditEvent)(sql`
      select e.event_id, e.at, e.action, e.outcome, e.code, e.actor, e.project_id, e.subject, e.address, e.user_agent,
             coalesce((select count from audit_refusal_count c where c.event_id = e.event_id), 1) as count
        from (${found} ${newest}) page
        join audit_event e on e.at = page.at and e.event_id = page.event_id
       order by e.at desc, e.event_id desc`)
  }

  const firstOf = (keys: ReadonlyArray<string>) => `coalesce(${keys.map((key) => `subject ->> '${key}'`).join(", ")})`

  /** As the indexes have them (migrations/0034_console_lists.sql and migrations/0051_audit_subjects.sql). */
  const aboutIds = [`substring(actor from position(':' in actor) + 1)`, firstOf(subjects), firstOf(otherSubjects)].map(
    (id) => sql.literal(id)
  )

  return { insertDone, count, list }
}

/** The members of a subject that people look for, the first that it has. */
const subjects = [
  "task_id",
  "entry_id",
  "bridge_id",
  "grant_id",
  "project_token_id",
  "credential_id",
  "device_id",
  "document_id",
  "client_id",
  "session_id",
  "reference"
]

/** The same for those that `subjects` lacks, or that often stand beside another one there. */
const otherSubjects = ["channel_id", "person_key_id", "credential_id"]
