/**
 * Statements for dependencies between tasks.
 *
 * Locks are taken in one order: first the project's graph, if dependencies change, then the task.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"
import { TaskLink } from "./Shapes.ts"

const Id = Schema.Struct({ id: Schema.String })

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Locks all dependencies of the project until the transaction ends, so that two updates cannot close a cycle
   * together.
   */
  const lockGraph = (project_id: string) => sql`
    select pg_advisory_xact_lock(hashtextextended('task dependencies of ' || ${project_id}::text, 0))`

  const findAll = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(TaskLink)(sql`
      select id, title, status
        from task
       where project_id = ${project_id}::uuid
         and id = any (${ids}::uuid[])
       order by id`)

  /** Returns a row if any of `ids` depends on the task, directly or through others. */
  const reaches = (project_id: string, ids: ReadonlyArray<string>, id: string) =>
    rows(Id)(sql`
      with recursive waits (id) as (
        select unnest(${ids}::uuid[])
         union
        select d.depends_on
          from waits
          join task_dependency d on d.project_id = ${project_id}::uuid and d.task_id = waits.id
      )
      select id
        from waits
       where id = ${id}::uuid`)

  const replaceDependencies = (project_id: string, id: string, depends_on: ReadonlyArray<string>) => sql`
    with gone as (
      delete from task_dependency
       where project_id = ${project_id}::uuid
         and task_id = ${id}::uuid
         and depends_on <> all (${depends_on}::uuid[])
    )
    insert into task_dependency (project_id, task_id, depends_on)
    select ${project_id}::uuid, ${id}::uuid, unnest(${depends_on}::uuid[])
        on conflict do nothing`

  const dependenciesOf = (project_id: string, id: string) =>
    rows(TaskLink)(sql`
      select o.id, o.title, o.status
        from task_dependency d
        join task o on o.project_id = d.project_id and o.id = d.depends_on
       where d.project_id = ${project_id}::uuid
         and d.task_id = ${id}::uuid
       order by o.id`)

  const blockedBy = (project_id: string, id: string, limit: number) =>
    rows(TaskLink)(sql`
      select o.id, o.title, o.status
        from task_dependency d
        join task o on o.project_id = d.project_id and o.id = d.task_id
       where d.project_id = ${project_id}::uuid
         and d.depends_on = ${id}::uuid
       order by o.closed_at is not null, o.priority, o.id
       limit ${limit}`)

  return { lockGraph, findAll, reaches, replaceDependencies, dependenciesOf, blockedBy }
}
