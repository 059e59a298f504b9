/** Whether a project exists; a disabled project does. */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"

export const projectExists = (
  sql: SqlClient.SqlClient,
  project_id: string
): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(
    sql`
      select project_id
        from project
       where project_id = ${project_id}::uuid`,
    (found) => found.length > 0
  )
