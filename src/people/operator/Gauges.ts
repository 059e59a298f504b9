/**
 * What only the database knows, read when somebody looks: one statement, 2 s at most, for all who look within 5 s.
 *
 * Every part of it reads an index, and no more than ten thousand rows. Without an answer the gauges go away and
 * `service_database_up` is 0: a number of yesterday would pass for one of today.
 */
import { Context, Duration, Effect, Layer, Metric, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../platform/settings/Settings.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { version } from "../../platform/settings/Package.ts"
import { after } from "../../wire/Instant.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

const gauge = (name: string, description: string, attributes: Readonly<Record<string, string>> = {}) =>
  Metric.gauge(name, { description, attributes })

const connections = (state: string) =>
  gauge("service_database_connections", "Connections of all replicas by what they do", { state })

const paused = (environment: string) =>
  gauge("service_push_paused", "Whether delivery to an environment is paused", { environment })

/** By the column of the statement below. */
const gauges = {
  tokens_near_expiry: gauge("service_bridge_tokens_near_expiry", "Tokens in the last tenth of their life"),
  rotations_pending: gauge("service_bridge_rotations_pending", "Rotations prepared and not yet ended"),
  oldest_rotation: gauge("service_bridge_rotation_oldest_seconds", "Age of the oldest pending rotation"),
  sweep_lag: gauge("service_sweep_lag_seconds", "How long ago the oldest thing ended that no sweep has written down"),
  push_due: gauge("service_push_due", "Notifications that could be sent and were not yet"),
  push_oldest_due: gauge("service_push_oldest_due_seconds", "How long the oldest of them has waited"),
  push_paused_production: paused("production"),
  push_paused_development: paused("development"),
  database_size: gauge("service_database_size_bytes", "Size of the database"),
  connections_active: connections("active"),
  connections_idle: connections("idle"),
  connections_in_transaction: connections("idle_in_transaction"),
  connections_waiting: connections("waiting_for_lock")
}
type Column = keyof typeof gauges

const up = gauge("service_database_up", "Whether the database answered the last look")

const Row = Schema.Struct({
  tokens_near_expiry: Schema.Number,
  rotations_pending: Schema.Number,
  oldest_rotation: Schema.Number,
  sweep_lag: Schema.Number,
  push_due: Schema.Number,
  push_oldest_due: Schema.Number,
  push_paused_production: Schema.Number,
  push_paused_development: Schema.Number,
  database_size: Schema.Number,
  connections_active: Schema.Number,
  connections_idle: Schema.Number,
  connections_in_transaction: Schema.Number,
  connections_waiting: Schema.Number
})

const look = (sql: SqlClient.SqlClient, now: Date, nearly: Date) =>
  firstRow(Row)(sql`
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
    ), due as (
      select
        from push_outbox
       where state in ('pending', 'leased')
         and not_before <= ${now}
         and expires_at > ${now}
       limit 10000
    ), oldest_due as (
      -- One look into the index for each priority.
      select min(first.not_before) as since
        from generate_series(0, 3) level
       cross join lateral (select min(o.not_before) as not_before
                             from push_outbox o
                            where o.state in ('pending', 'leased')
                              and o.priority = level) first
    ), paused as (
      select environment
        from push_provider_state
       where provider = 'apns'
         and paused_until > ${now}
    ), session as (
      select state, wait_event_type
        from pg_stat_activity
       where datname = current_database()
         and application_name like 'bridge-service%'
    )
    select (select count(*) from near)::float8 as tokens_near_expiry,
           (select count(*) from pending)::float8 as rotations_pending,
           (select coalesce(extract(epoch from ${now}::timestamptz - min(created_at)), 0)
              from pending)::float8 as oldest_rotation,
           (select greatest(coalesce(extract(epoch from ${now}::timestamptz - since), 0), 0)
              from unswept)::float8 as sweep_lag,
           (select count(*) from due)::float8 as push_due,
           (select greatest(coalesce(extract(epoch from ${now}::timestamptz - since), 0), 0)
              from oldest_due)::float8 as push_oldest_due,
           (select count(*) from paused where environment = 'production')::float8 as push_paused_production,
           (select count(*) from paused where environment = 'development')::float8 as push_paused_development,
           pg_database_size(current_database())::float8 as database_size,
           (select count(*) from session
             where state = 'active' and wait_event_type is distinct from 'Lock')::float8 as connections_active,
           (select count(*) from session where state = 'idle')::float8 as connections_idle,
           (select count(*) from session
             where state like 'idle in transaction%')::float8 as connections_in_transaction,
           (select count(*) from session
             where state = 'active' and wait_event_type = 'Lock')::float8 as connections_waiting`)

export class Gauges extends Context.Service<
  Gauges,
  {
    /** Brings the gauges up to date, or takes them away. */
    readonly refresh: Effect.Effect<void>
  }
>()("service/metrics/Gauges") {
  static readonly layer = Layer.effect(
    Gauges,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const { bridge, identity } = yield* Settings
      const tenth = Duration.times(bridge.tokenTtl, 0.1)

      const row = Effect.gen(function* () {
        const now = yield* clock.now
        return yield* look(sql, now, after(now, tenth))
      }).pipe(
        Effect.timeout("2 seconds"),
        Effect.catchCause(() => Effect.succeed(Option.none<typeof Row.Type>()))
      )
      const show = (found: Option.Option<typeof Row.Type>) =>
        Effect.forEach(
          Object.entries(gauges) as ReadonlyArray<[Column, Metric.Gauge<number>]>,
          ([column, gauge]) =>
            Option.isSome(found) ? Metric.update(gauge, found.value[column]) : Metric.remove(gauge),
          { discard: true }
        )
      const { service_revision: revision } = identity
      yield* Metric.update(gauge("service_build_info", "Always 1; its labels say what runs", { version, revision }), 1)

      const refresh = Effect.gen(function* () {
        const found = yield* row
        yield* Metric.update(up, Option.isSome(found) ? 1 : 0)
        yield* show(found)
      })
      return { refresh: yield* Effect.cachedWithTTL(refresh, "5 seconds") }
    })
  )
}
