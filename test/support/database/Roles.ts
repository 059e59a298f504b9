/** The two accounts of deploy/roles.sql. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { statementsOf } from "../../../src/platform/database/Migrations.ts"
import { packageRoot } from "../run/Root.ts"

const statements = statementsOf(readFileSync(join(packageRoot, "deploy/roles.sql"), "utf8"))

/** Runs deploy/roles.sql as the account of the connection, a superuser. */
export const makeRoles = SqlClient.SqlClient.use((sql) =>
  Effect.forEach(statements, (statement) => sql.unsafe(statement).unprepared)
)
