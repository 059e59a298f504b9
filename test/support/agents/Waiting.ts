/** The truth about tasks.waits_for. */
import { SqlClient } from "effect/sql"

/** Tasks of all projects whose number of unfinished dependencies is wrong. */
export const miscounted = SqlClient.SqlClient.use(
  (sql) => sql`
    select t.id, t.waits_for, c.unfinished
      from task t
     cross join lateral (
       select count(*)::int as unfinished
         from task_dependency d
         join task o on o.project_id = d.project_id and o.id = d.depends_on
        where d.project_id = t.project_id
          and d.task_id = t.id
          and o.closed_at is null) c
     where t.waits_for <> c.unfinished`
)
