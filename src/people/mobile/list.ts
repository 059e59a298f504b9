/** Lists the devices of a project for the operator. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import { refuseOperator } from "./Errors.ts"
import * as Store from "./DeviceStore.ts"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const store = Store.make(sql)

  return Effect.fn("Devices.list")(function* (project_id: string, limit: number) {
    if (!(yield* projectExists(sql, project_id))) return yield* refuseOperator("project_not_found")
    return yield* store.list(project_id, limit)
  }, persistence)
})
