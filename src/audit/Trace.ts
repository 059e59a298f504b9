/** Who did something when: the part of an audit row that does not depend on what was done. */
import { Effect } from "effect"
import type { Statement, SqlClient } from "effect/sql"
import { uuidAt } from "../crypto/Random.ts"
import { Caller } from "../wire/Headers.ts"

export interface Trace {
  readonly event_id: string
  readonly at: Date
  readonly address: string
  readonly user_agent: string
}

export const traceAt = Effect.fnUntraced(function* (at: Date) {
  const { address, userAgent } = yield* Caller
  return { event_id: yield* uuidAt(at), at, address, user_agent: userAgent } satisfies Trace
})

/**
 * The audit row of a mutation as one more clause of its statement, so that neither exists without the other.
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
