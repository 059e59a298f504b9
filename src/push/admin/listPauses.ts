/** The push environments that fail, for `push-status` and the overview. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { environments } from "../../wire/mobile/Notifications.ts"
import { rows } from "../../platform/sql/Rows.ts"

export const Pause = Schema.Struct({
  environment: Schema.Literals(environments),
  paused_until: Schema.NullOr(Schema.Date),
  reason: Schema.NullOr(Schema.String),
  /** Pauses since the last success. */
  failures: Schema.Int
})
export type Pause = typeof Pause.Type

export const listPauses = (sql: SqlClient.SqlClient) =>
  rows(Pause)(sql`
    select environment, paused_until, reason, failures
      from push_provider_state
     where failures > 0
     order by environment`)
