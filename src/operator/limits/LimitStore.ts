/** The statements of a project's limits. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { openSessions } from "../../platform/sql/access/OpenSession.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

const Found = Schema.Struct({
  limits: Schema.Record(Schema.String, Schema.Number),
  stored_bytes: Schema.Number,
  index_bytes: Schema.Number,
  entries: Schema.Number,
  tasks: Schema.Number,
  sessions: Schema.Number,
  channels: Schema.Number
})

export const make = (sql: SqlClient.SqlClient) => {
  const find = (project_id: string, now: Date) =>
    firstRow(Found)(sql`
      select p.limits, coalesce(u.stored_bytes, 0)::float8 as stored_bytes,
             coalesce(u.index_bytes, 0)::float8 as index_bytes, coalesce(u.entries, 0)::float8 as entries,
             coalesce(u.tasks, 0)::float8 as tasks, (${openSessions(sql, project_id, now)})::float8 as sessions,
             (select count(*)
                from mobile_device d
               where d.project_id = p.project_id
                 and d.environment = 'channel'
                 and d.state = 'active')::float8 as channels
        from project p
        left join project_usage u on u.project_id = p.project_id
       where p.project_id = ${project_id}::uuid
         and p.deleted_at is null`)

  /** Merges the JSON object `changes` into the limits; a null removes its limit. */
  const set = (project_id: string, changes: string) =>
    firstRow(Schema.Struct({ changed: Schema.Boolean }))(sql`
      with found as materialized (
        select project_id, limits, jsonb_strip_nulls(limits || ${changes}::jsonb) as wanted
          from project
         where project_id = ${project_id}::uuid
           and deleted_at is null
           for no key update
      )
      update project p
         set limits = found.wanted
        from found
       where p.project_id = found.project_id
      returning found.limits <> found.wanted as changed`)

  return { find, set }
}
