/** Deletes idempotency keys seven days after their call. Memory, tasks and receipts are never swept. */
import { Duration, Schema } from "effect"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { after } from "../../wire/Instant.ts"

/** A retry is recognised for at least this long. */
const kept = Duration.days(7)

/**
 * Every write locks the usage of its project until it commits. So a batch waits for the project of the oldest key only, and
 * before it locks another one; of the others it takes those that are free. Thus no project's writes wait for those of
 * another project, and a project that never stops writing does not keep its keys.
 *
 * Keys that are left to a locked project count, too: the batch is full, and what comes behind them has its turn now. The next
 * batch begins with another key, because each deletes the oldest.
 */
const purgeIdempotencyKeys: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ tool: Schema.String }))(sql`
    with due as materialized (
      select project_id, tool, idempotency_key, created_at
        from idempotency_record
       where created_at < ${after(now, Duration.negate(kept))}
       order by created_at
       limit ${limit}
         for update skip locked
    ), oldest as materialized (
      select project_id
        from project_usage
       where project_id = (select project_id from due order by created_at limit 1)
         for update
    ), free as materialized (
      select project_id
        from project_usage
       where project_id = any (array(select project_id from due))
         and (select count(*) from oldest) > 0
         for update skip locked
    ), purged as (
      delete from idempotency_record r
       using due
       where r.project_id = due.project_id
         and r.tool = due.tool
         and r.idempotency_key = due.idempotency_key
         and due.project_id in (select project_id from free)
      returning r.project_id, octet_length(r.result) as bytes
    ), freed as (
      update project_usage u
         set stored_bytes = greatest(0, u.stored_bytes - p.bytes)
        from (select project_id, sum(bytes) as bytes from purged group by project_id) p
       where u.project_id = p.project_id
    )
    select tool from due where exists (select from purged)`)

export const sweeps: ReadonlyArray<Sweep> = [{ name: "purge idempotency keys", run: purgeIdempotencyKeys }]
