/**
 * Statements for dependencies between tasks.
 *
 * Whoever writes tasks takes locks in one order:
 *
 * 1. the row of the idempotency_key;
 * 2. the project's graph, if dependencies change or a task is closed or reopened; without it, one task at most;
 * 3. the tasks that are written, those that they wait for and those that wait for them: all of a call, because its first
 *    write takes
 * 4. the project's usage;
 * 5. the count of its active entries, new rows, and notifications.
 *
 * An import writes its new rows before all of these, because nobody else knows their ids.
 *
 * An erasure takes them in another order. It waits for no lock but the project's usage longer than a tenth of a second, then
 * begins again (Erasures.ts). While it waits for the usage it holds no task.
 */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import { furthest, mostWaiting } from "./Cycle.ts"
import { TaskLink } from "../Shapes.ts"

/** `whole`: the walk ended before the limit. */
const Walk = Schema.Struct({ found: Schema.Boolean, whole: Schema.Boolean })

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Locks all dependencies of the project until the transaction ends: two updates cannot close a cycle together, and two
   * that close tasks cannot wait for each other.
   */
  const lockGraph = (project_id: string) => sql`
    select pg_advisory_xact_lock(hashtextextended('task dependencies of ' || ${project_id}::text, 0))`

  /** Locks the tasks until the transaction ends. */
  const lock = (project_id: string, ids: ReadonlyArray<string>) => sql`
    select count(*)
      from (select 1
              from task
             where project_id = ${project_id}::uuid
               and id = any (${ids}::uuid[])
             order by id
               for no key update) locked`

  const findAll = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(TaskLink)(sql`
      select id, title, status
        from task
       where project_id = ${project_id}::uuid
         and id = any (${ids}::uuid[])
       order by id`)

  /** Whether the task, or one that waits for it directly or through others, is among `ids`. */
  const waitedForBy = (project_id: string, id: string, ids: ReadonlyArray<string>) =>
    firstRow(Walk)(sql`
      with recursive waiting (id) as (
        select ${id}::uuid
         union
        select d.task_id
          from waiting
          join task_dependency d on d.project_id = ${project_id}::uuid and d.depends_on = waiting.id
      )
      ${walked("waiting", ids)}`)

  /** Whether the task is among `ids`, or any of them waits for it, directly or through others. */
  const waitFor = (project_id: string, ids: ReadonlyArray<string>, id: string) =>
    firstRow(Walk)(sql`
      with recursive needed (id) as (
        select unnest(${ids}::uuid[])
         union
        select d.depends_on
          from needed
          join task_dependency d on d.project_id = ${project_id}::uuid and d.task_id = needed.id
      )
      ${walked("needed", [id])}`)

  /** The limit stops the recursion: it reads at most 32 dependencies of each of these tasks. */
  const walked = (tasks: string, ids: ReadonlyArray<string>) => sql`
    select coalesce(bool_or(id = any (${ids}::uuid[])), false) as found, count(*) <= ${furthest} as whole
      from (select id from ${sql.literal(tasks)} limit ${furthest + 1}) t`

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

  /** Locks the tasks that wait for these, and counts them. Closing or reopening them changes their `waits_for`. */
  const lockWaiting = (project_id: string, ids: ReadonlyArray<string>) =>
    Effect.map(
      rows(Schema.Struct({ count: Schema.Int }))(sql`
        select count(*)::int as count
          from (select 1
                  from task t
                  join task_dependency d on d.project_id = t.project_id and d.task_id = t.id
                 where d.project_id = ${project_id}::uuid
                   and d.depends_on = any (${ids}::uuid[])
                 order by t.id
                   for no key update of t) locked`),
      ([locked]) => locked!.count
    )

  /** The `ids` for which as many tasks wait as may. */
  const crowded = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select asked.id
        from unnest(${ids}::uuid[]) as asked (id)
       where (select count(*)
                from (select 1
                        from task_dependency d
                       where d.project_id = ${project_id}::uuid
                         and d.depends_on = asked.id
                       limit ${mostWaiting}) waiting) >= ${mostWaiting}`)

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

  return {
    lockGraph,
    lock,
    findAll,
    waitedForBy,
    waitFor,
    replaceDependencies,
    lockWaiting,
    crowded,
    dependenciesOf,
    blockedBy
  }
}
