/** Deletes idempotency keys seven days after their call. Memory, tasks and receipts are never swept. */
import { Duration, Schema } from "effect"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { after } from "../../wire/Instant.ts"

/** A retry is recognised for at least this long. */
const kept = Duration.days(7)

const purgeIdempotencyKeys: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ tool: Schema.String }))(sql`
    delete from idempotency_record
     where ctid = any (array(
       select ctid
         from idempotency_record
        where created_at < ${after(now, Duration.negate(kept))}
        order by created_at
        limit ${limit}
          for update skip locked))
    returning tool`)

export const sweeps: ReadonlyArray<Sweep> = [{ name: "purge idempotency keys", run: purgeIdempotencyKeys }]
