/** The audit row of a mutation, as one more clause of the statement that mutates (spec 1.5). */
import type { SqlClient, Statement } from "effect/sql"

/** Who did something when: the part of an audit row that does not depend on what was done. */
export interface Trace {
  readonly event_id: string
  readonly at: Date
  readonly address: string
  readonly user_agent: string
}

/**
 * Neither exists without the other: the row is inserted by the statement that it reports.
 *
 * `from` names the clause whose rows prove that the mutation happened; `actor`, `project` and `subject` are expressions
 * over it. Actors are `operator` or `kind:id`; a subject is a JSON object of ids.
 */
export const auditRow = (
  sql: SqlClient.SqlClient,
  trace: Trace,
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
