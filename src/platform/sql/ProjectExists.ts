/** Tells an unknown project from one that has nothing to list. A disabled project exists, a deleted one does not. */
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
       where project_id = ${project_id}::uuid
         and deleted_at is null`,
    (found) => found.length > 0
  )
