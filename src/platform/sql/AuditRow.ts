/** The audit row of a mutation, as a clause of the statement that mutates (spec 1.5). */
import type { SqlClient, Statement } from "effect/sql"

/** The part of an audit row that does not depend on the action: when, and from where. */
export interface Trace {
  readonly event_id: string
  readonly at: Date
  readonly address: string
  readonly user_agent: string
}

/** The same as columns of the clause that the row comes from, for a statement that serves several requests (Asked.ts). */
export type TraceColumns = { readonly [Name in keyof Trace]: Statement.Fragment }

export const traceTypes = { event_id: "uuid", at: "timestamptz", address: "text", user_agent: "text" } as const

export const traceColumns = (sql: SqlClient.SqlClient): TraceColumns => ({
  event_id: sql`event_id`,
  at: sql`at`,
  address: sql`address`,
  user_agent: sql`user_agent`
})

/**
 * The statement that mutates also inserts the row, so that neither exists without the other.
 *
 * `from` names the clause whose rows exist only if the mutation happened. `actor`, `project` and `subject` are
 * expressions over that clause. An actor is `kind:id`, or `operator:account@host`; a subject is a JSON object of ids.
 */
export const auditRow = (
  sql: SqlClient.SqlClient,
  trace: Trace | TraceColumns,
  row: {
    readonly action: string
    readonly from: string
    readonly actor: Statement.Fragment
    readonly project: Statement.Fragment
    readonly subject: Statement.Fragment
  }
) => sql`
  insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
  select ${trace.event_id}::uuid, ${trace.at}::timestamptz, ${row.project}, ${row.actor}, ${row.action}::text, 'done',
         ${row.subject}, ${trace.address}::text, ${trace.user_agent}::text
    from ${sql.literal(row.from)}`
