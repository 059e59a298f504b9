/** The statements of the operator's commands for push delivery. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { lanes } from "../../wire/mobile/Notifications.ts"
import type { Page } from "../../platform/sql/Page.ts"

const At = Schema.Date

export const DeadLetter = Schema.Struct({
  delivery_id: Schema.String,
  device_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.String,
  attempts: Schema.Int,
  last_status: Schema.NullOr(Schema.Int),
  last_reason: Schema.NullOr(Schema.String),
  created_at: At,
  settled_at: At,
  expires_at: At
})

export const Pause = Schema.Struct({
  environment: Schema.Literals(lanes),
  paused_until: Schema.NullOr(At),
  reason: Schema.NullOr(Schema.String),
  /** Pauses since the last success. */
  failures: Schema.Int
})
export type Pause = typeof Pause.Type

/** How many of the notifications that wait are counted, and how many of the others, the last ones. */
export const mostCounted = 10_000

/** When the oldest notification that waits became due: the first of each priority, which an index finds. */
export const dueSince = (sql: SqlClient.SqlClient, now: Date) => sql`
  (select min(first.not_before)
     from generate_series(0, 3) level
    cross join lateral (
      select not_before
        from push_outbox
       where state in ('pending', 'leased')
         and priority = level
         and not_before <= ${now}
         and expires_at > ${now}
       order by not_before
       limit 1) first)`

export const make = (sql: SqlClient.SqlClient) => {
  /** In the orders of two indexes. */
  const countStates = rows(Schema.Struct({ state: Schema.String, count: Schema.Int }))(sql`
    select state, count(*)::int as count
      from ((select state
               from push_outbox
              where state in ('pending', 'leased')
              order by priority desc, not_before
              limit ${mostCounted})
             union all
            (select state
               from push_outbox
              where settled_at is not null
              order by settled_at desc
              limit ${mostCounted})) counted
     group by state
     order by state`)

  const oldestDue = (now: Date) =>
    firstRow(Schema.Struct({ due_since: Schema.NullOr(At) }))(sql`select ${dueSince(sql, now)} as due_since`)

  /** Newest first. */
  const listDead = ({ after, limit }: Page, since?: Date) =>
    rows(DeadLetter)(sql`
      select delivery_id, device_id, project_id, kind, attempts, last_status, last_reason, created_at, settled_at,
             expires_at
        from push_outbox
       where state = 'dead'
         and ${
           after === undefined
             ? sql`true`
             : sql`(settled_at, delivery_id) <
                   ((select settled_at from push_outbox where delivery_id = ${after}::uuid), ${after}::uuid)`
         }
         and ${since === undefined ? sql`true` : sql`settled_at >= ${since}`}
       order by settled_at desc, delivery_id desc
       limit ${limit}`)

  /** Retries only unexpired dead letters of active devices without a newer notification under the same collapse key. */
  const retryDead = (now: Date) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      update push_outbox o
         set state = 'pending', attempts = 0, not_before = ${now}, settled_at = null
        from mobile_device d
       where d.device_id = o.device_id
         and d.state = 'active'
         and o.state = 'dead'
         and o.expires_at > ${now}
         and not exists (
           select 1
             from push_outbox n
            where n.device_id = o.device_id
              and n.collapse_key = o.collapse_key
              and n.state in ('pending', 'leased', 'delivered', 'dead')
              and n.created_at > o.created_at)
      returning o.delivery_id`)

  const pauses = rows(Pause)(sql`
    select environment, paused_until, reason, failures
      from push_provider_state
     where failures > 0
     order by environment`)

  return { countStates, oldestDue, pauses, listDead, retryDead }
}
