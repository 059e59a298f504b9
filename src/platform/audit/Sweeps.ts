/** Deletes audit rows that are older than SERVICE_AUDIT_RETENTION_DAYS. */
import { Duration, Effect, Schema } from "effect"
import type { Sweep } from "../database/Sweeper.ts"
import { Settings } from "../settings/Settings.ts"
import { rows } from "../sql/Rows.ts"

const purgeAudit: Sweep<Settings>["run"] = (sql, now, limit) =>
  Effect.flatMap(Settings, ({ audit }) =>
    rows(Schema.Struct({ event_id: Schema.String }))(sql`
      delete from audit_event
       where event_id = any (array(
         select event_id
           from audit_event
          where at < ${new Date(now.getTime() - Duration.toMillis(audit.retention))}
          order by at
          limit ${limit}))
      returning event_id`)
  )

export const sweeps: ReadonlyArray<Sweep<Settings>> = [{ name: "purge audit", run: purgeAudit }]
