/** The audit log is kept for SERVICE_AUDIT_RETENTION_DAYS. */
import { Duration } from "effect"
import type { Sweep } from "../database/Sweeper.ts"
import * as Store from "./AuditStore.ts"

export const sweeps = (retention: Duration.Duration): ReadonlyArray<Sweep> => [
  {
    name: "purge audit",
    run: (sql, now, limit) => Store.make(sql).purge(new Date(now.getTime() - Duration.toMillis(retention)), limit)
  }
]
