/** The one statement behind the gauges that only the database knows, and the shape of its row. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { monthsAhead } from "../../platform/sql/AuditMonths.ts"
import { usageByLimit } from "../../platform/sql/ProjectUsage.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

export const Measured = Schema.Struct({
  tokens_near_expiry: Schema.Number,
  rotations_pending: Schema.Number,
  oldest_rotation: Schema.Number,
  sweep_lag: Schema.Number,
  embeddings_waiting: Schema.Number,
  push_due: Schema.Number,
  push_oldest_due: Schema.Number,
  push_paused_production: Schema.Number,
  push_paused_development: Schema.Number,
  push_paused_web: Schema.Number,
  push_paused_channel: Schema.Number,
  database_size: Schema.Number,
  connections_active: Schema.Number,
  connections_idle: Schema.Number,
  connections_in_transaction: Schema.Number,
  connections_waiting: Schema.Number,
  used_stored_bytes: Schema.Number,
  used_index_bytes: Schema.Number,
  used_entries: Schema.Number,
  used_tasks: Schema.Number,
  audit_months_ahead: Schema.Number
})

const defaults = storedMaxima({})

export const make = (sql: SqlClient.SqlClient) => ({
  /** Reads indexes only, at most ten thousand rows each. A token that expires by `nearly` is near its expiry. */
  measure: (now: Date, nearly: Date) =>
    firstRow(Measured)(sql`
    with near as (
      select
        from bridge_token
       where state = 'active'
         and expires_at > ${now}
         and expires_at <= ${nearly}
       limit 10000
    ), pending as (
      select created_at
        from bridge_rotation
       where state = 'pending'
         and confirmation_expires_at > ${now}
       order by confirmation_expires_at
       limit 10000
    ), unswept as (
      select least((select min(expires_at) from bridge_token where state = 'active'),
                   (select min(confirmation_expires_at) from bridge_rotation where state = 'pending')) as since
    ), embedding as (
      select from embedding_queue limit 10000
    ), due as (
      select
        from push_outbox
       where state in ('pending', 'leased')
         and not_before <= ${now}
         and expires_at > ${now}
       limit 10000
    ), oldest_due as (
      -- One index lookup per priority.
      select min(first.not_before) as since
        from generate_series(0, 3) level
       cross join lateral (select min(o.not_before) as not_before
                             from push_outbox o
                            where o.state in ('pending', 'leased')
                              and o.priority = level) first
    ), paused as (
      select environment
        from push_provider_state
       where provider = case environment when 'web' then 'webpush' when 'channel' then 'channel' else 'apns' end
         and paused_until > ${now}
    ), session as (
      select state, wait_event_type
        from pg_stat_activity
       where datname = current_database()
         and application_name like 'bridge-service%'
    ), own as materialized (
      -- Few have limits of their own, so the others are read in one pass, without their limits.
      select project_id, limits
        from project
       where limits <> '{}'
    ), used as (
      select "limit", max(value / maximum) as share
        from (${usageByLimit(sql, defaults, "own")}
              union all
              select null, l.name, l.value, l.maximum
                from (select max(stored_bytes) as stored_bytes, max(index_bytes) as index_bytes, max(entries) as entries,
                             max(tasks) as tasks
                        from project_usage
                       where project_id not in (select project_id from own)) u
               cross join lateral (values
                 ('stored_bytes', u.stored_bytes, ${defaults.stored_bytes}::float8),
                 ('index_bytes', u.index_bytes, ${defaults.index_bytes}::float8),
                 ('entries', u.entries, ${defaults.entries}::float8),
                 ('tasks', u.tasks, ${defaults.tasks}::float8)) as l (name, value, maximum)) l
       group by "limit"
    )
    select (select count(*) from near)::float8 as tokens_near_expiry,
           (select count(*) from pending)::float8 as rotations_pending,
           (select coalesce(extract(epoch from ${now}::timestamptz - min(created_at)), 0)
              from pending)::float8 as oldest_rotation,
           (select greatest(coalesce(extract(epoch from ${now}::timestamptz - since), 0), 0)
              from unswept)::float8 as sweep_lag,
           (select count(*) from embedding)::float8 as embeddings_waiting,
           (select count(*) from due)::float8 as push_due,
           (select greatest(coalesce(extract(epoch from ${now}::timestamptz - since), 0), 0)
              from oldest_due)::float8 as push_oldest_due,
           (select count(*) from paused where environment = 'production')::float8 as push_paused_production,
           (select count(*) from paused where environment = 'development')::float8 as push_paused_development,
           (select count(*) from paused where environment = 'web')::float8 as push_paused_web,
           (select count(*) from paused where environment = 'channel')::float8 as push_paused_channel,
           pg_database_size(current_database())::float8 as database_size,
           (select count(*) from session
             where state = 'active' and wait_event_type is distinct from 'Lock')::float8 as connections_active,
           (select count(*) from session where state = 'idle')::float8 as connections_idle,
           (select count(*) from session
             where state like 'idle in transaction%')::float8 as connections_in_transaction,
           (select count(*) from session
             where state = 'active' and wait_event_type = 'Lock')::float8 as connections_waiting,
           coalesce((select share from used where "limit" = 'stored_bytes'), 0) as used_stored_bytes,
           coalesce((select share from used where "limit" = 'index_bytes'), 0) as used_index_bytes,
           coalesce((select share from used where "limit" = 'entries'), 0) as used_entries,
           coalesce((select share from used where "limit" = 'tasks'), 0) as used_tasks,
           ${monthsAhead(sql, now)}::float8 as audit_months_ahead`)
})
