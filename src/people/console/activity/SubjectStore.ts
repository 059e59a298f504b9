/** The statements that find what a notification is about, and what tasks and entries are called. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"

const Subject = Schema.Struct({
  project_id: Schema.String,
  kind: Schema.Literals(["task", "bridge", "agent", "phone"])
})
export type Subject = typeof Subject.Type

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * In one project, or in all: tasks have no index without the project, so each project's is asked. Imports keep ids, so
   * several projects may have a task of one id; the newest project's is found.
   */
  const find = (id: string, project_id: string | undefined) =>
    firstRow(Subject)(sql`
      select s.project_id, s.kind
        from (select p.project_id, 'task' as kind
                from project p
               where exists (
                 select 1
                   from task t
                  where t.project_id = p.project_id
                    and t.id = ${id}::uuid)
               union all
              select project_id, 'bridge' from bridge_identity where identity_id = ${id}::uuid
               union all
              select project_id, 'agent' from oauth_grant where grant_id = ${id}::uuid
               union all
              select project_id, 'phone' from mobile_device where device_id = ${id}::uuid) s
       where ${project_id === undefined ? sql`true` : sql`s.project_id = ${project_id}::uuid`}
       order by s.project_id desc
       limit 1`)

  /** The tasks and entries among these ids, each in its project. */
  const titles = (project_ids: ReadonlyArray<string>, ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ project_id: Schema.String, id: Schema.String, title: Schema.String }))(sql`
      with asked as materialized (
        select distinct project_id, id
          from unnest(${project_ids}::uuid[], ${ids}::uuid[]) asked (project_id, id)
      )
      select t.project_id, t.id, t.title
        from asked
        join task t on t.project_id = asked.project_id and t.id = asked.id
       union all
      select e.project_id, e.id, e.title
        from asked
        join memory_entry e on e.project_id = asked.project_id and e.id = asked.id`)

  return { find, titles }
}
