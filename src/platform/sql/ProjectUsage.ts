/** Counts what a project stores, as a clause of the statement that writes (decisions.md, Budgets of a project). */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { firstRow } from "./Rows.ts"

/** By column of `project_usage`. */
export interface Usage {
  readonly stored_bytes: number
  readonly index_bytes: number
  readonly entries: number
  readonly tasks: number
}

export const nothing: Usage = { stored_bytes: 0, index_bytes: 0, entries: 0, tasks: 0 }

const columns = ["stored_bytes", "index_bytes", "entries", "tasks"] as const

/** What a write adds; the statement itself computes the bytes of its postings. Receipts are counted without a maximum. */
export type Added = Partial<Omit<Usage, "index_bytes"> & { readonly receipts: number }>

/**
 * Adds to the project's usage if the clause `from` has a row, and returns a row only if every sum that grows stays within
 * its maximum. The clause that writes has to select from this one. The row stays locked until the transaction ends, so
 * concurrent writers cannot pass a maximum together.
 */
export const charge = (
  sql: SqlClient.SqlClient,
  project_id: string,
  from: string,
  { entries = 0, receipts = 0, stored_bytes = 0, tasks = 0 }: Added,
  maxima: Usage,
  index_bytes: Statement.Fragment = sql`0`
) => {
  const within = (sum: (column: string) => string) =>
    sql.and(columns.map((column) => sql`${sql.literal(sum(column))} <= ${maxima[column]}::bigint`))
  return sql`
    insert into project_usage as u (project_id, stored_bytes, index_bytes, entries, tasks, receipts)
    select ${project_id}::uuid, stored_bytes, index_bytes, entries, tasks, ${receipts}::bigint
      from (values (${stored_bytes}::bigint, (${index_bytes})::bigint, ${entries}::bigint, ${tasks}::bigint))
             as added (stored_bytes, index_bytes, entries, tasks)
     where exists (select 1 from ${sql.literal(from)})
       and ${within((column) => `added.${column}`)}
        on conflict (project_id) do update
       set stored_bytes = greatest(0, u.stored_bytes + excluded.stored_bytes),
           index_bytes = greatest(0, u.index_bytes + excluded.index_bytes),
           entries = u.entries + excluded.entries,
           tasks = u.tasks + excluded.tasks,
           receipts = u.receipts + excluded.receipts
     -- What does not grow is not checked: a limit below the present use must not stop a change that frees space.
     where ${within((column) => `case when excluded.${column} > 0 then u.${column} + excluded.${column} else 0 end`)}
    returning project_id`
}

/** What the project has stored; nothing if it has never written. */
export const usageOf = (sql: SqlClient.SqlClient, project_id: string) =>
  firstRow(
    Schema.Struct({
      stored_bytes: Schema.Number,
      index_bytes: Schema.Number,
      entries: Schema.Number,
      tasks: Schema.Number
    })
  )(sql`
    select stored_bytes::float8, index_bytes::float8, entries::float8, tasks::float8
      from project_usage
     where project_id = ${project_id}::uuid`)

/**
 * A row for each project and limit by size, over the projects' own limits and the defaults. `projects`: a clause with their
 * ids and limits.
 */
export const usageByLimit = (sql: SqlClient.SqlClient, defaults: Usage, projects = "project") => sql`
  select u.project_id, l.name as "limit", l.value::float8 as value, l.maximum::float8 as maximum
    from project_usage u
    join ${sql.literal(projects)} p on p.project_id = u.project_id
   cross join lateral (values
     ('stored_bytes', u.stored_bytes, coalesce((p.limits->>'stored_bytes')::bigint, ${defaults.stored_bytes}::bigint)),
     ('index_bytes', u.index_bytes,
      coalesce((p.limits->>'stored_bytes')::bigint * ${defaults.index_bytes / defaults.stored_bytes}::bigint,
               ${defaults.index_bytes}::bigint)),
     ('entries', u.entries, coalesce((p.limits->>'entries')::bigint, ${defaults.entries}::bigint)),
     ('tasks', u.tasks, coalesce((p.limits->>'tasks')::bigint, ${defaults.tasks}::bigint))) as l (name, value, maximum)`
