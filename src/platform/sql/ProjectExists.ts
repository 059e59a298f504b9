/** Whether a project has a row; a disabled project exists too. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "./Rows.ts"

export const projectExists = (sql: SqlClient.SqlClient, project_id: string) =>
  Effect.map(
    rows(Schema.Struct({ project_id: Schema.String }))(sql`
      select project_id
        from project
       where project_id = ${project_id}::uuid`),
    (found) => found.length > 0
  )
