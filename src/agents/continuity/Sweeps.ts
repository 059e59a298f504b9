/** Deletes idempotency keys seven days after their call. Memory, tasks and receipts are never swept. */
import { Duration, Schema } from "effect"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { after } from "../../wire/Instant.ts"

/** A retry is recognised for at least this long. */
const kept = Duration.days(7)

const purgeIdempotencyKeys: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ tool: Schema.String }))(sql`
    with purged as (
      delete from idempotency_record
       where (project_id, tool, idempotency_key) in (
         select project_id, tool, idempotency_key
           from idempotency_record
          where created_at < ${after(now, Duration.negate(kept))}
          order by created_at
          limit ${limit}
            for update skip locked)
      returning project_id, tool, octet_length(result) as bytes
    ), freed as (
      update project_usage u
         set stored_bytes = greatest(0, u.stored_bytes - p.bytes)
        from (select project_id, sum(bytes) as bytes from purged group by project_id) p
       where u.project_id = p.project_id
    )
    select tool from purged`)

export const sweeps: ReadonlyArray<Sweep> = [{ name: "purge idempotency keys", run: purgeIdempotencyKeys }]
