/**
 * Gauges that only the database knows. They are refreshed when read: one statement, at most 2 s, cached for 5 s.
 *
 * If the database does not answer, the gauges are removed and `service_database_up` is 0: keeping the last values would
 * pass stale numbers off as current ones.
 */
import { Context, Duration, Effect, Layer, Metric, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Backups } from "../../platform/backups/Backups.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { version } from "../../platform/settings/Package.ts"
import { after } from "../../wire/Instant.ts"
import * as Store from "./GaugesStore.ts"

const gauge = (name: string, description: string, attributes: Readonly<Record<string, string>> = {}) =>
  Metric.gauge(name, { description, attributes })

const connections = (state: string) =>
  gauge("service_database_connections", "Connections of all replicas by state", { state })

const paused = (environment: string) =>
  gauge("service_push_paused", "Whether delivery to an environment is paused", { environment })

const used = (limit: string) =>
  gauge("service_project_limit_used_ratio", "Share of a limit that the project nearest to it has used", { limit })

/** By column of the statement in GaugesStore.ts. */
const gauges = {
  tokens_near_expiry: gauge("service_bridge_tokens_near_expiry", "Tokens in the last tenth of their lifetime"),
  rotations_pending: gauge(
    "service_bridge_rotations_pending",
    "Rotations that are prepared and neither finished nor expired"
  ),
  oldest_rotation: gauge("service_bridge_rotation_oldest_seconds", "Age of the oldest pending rotation"),
  sweep_lag: gauge(
    "service_sweep_lag_seconds",
    "How long ago the oldest token or rotation expired that no sweep has updated yet"
  ),
  embeddings_waiting: gauge("service_embeddings_waiting", "Entries that wait for their vector"),
  push_due: gauge("service_push_due", "Notifications that are due but not sent yet"),
  push_oldest_due: gauge("service_push_oldest_due_seconds", "How long the oldest due notification has waited"),
  push_paused_production: paused("production"),
  push_paused_development: paused("development"),
  push_paused_web: paused("web"),
  push_paused_channel: paused("channel"),
  database_size: gauge("service_database_size_bytes", "Size of the database"),
  connections_active: connections("active"),
  connections_idle: connections("idle"),
  connections_in_transaction: connections("idle_in_transaction"),
  connections_waiting: connections("waiting_for_lock"),
  used_stored_bytes: used("stored_bytes"),
  used_index_bytes: used("index_bytes"),
  used_entries: used("entries"),
  used_tasks: used("tasks"),
  audit_months_ahead: gauge(
    "service_audit_months_ahead",
    "Whole months after this one for which the audit log has partitions"
  )
}

const backedUp = (trial: string) =>
  gauge("service_backup_last_good_timestamp_seconds", "When the newest backup was made that is good", { trial })
/** By column of the state of the backups; they need no database. */
const backupGauges = {
  last_good_at: backedUp("any"),
  last_restored_at: backedUp("restored")
}
const backupInterval = gauge("service_backup_interval_seconds", "How often backups are made")

type Column = keyof typeof gauges

const up = gauge("service_database_up", "Whether the database answered the last query")

export class Gauges extends Context.Service<
  Gauges,
  {
    /** Updates the gauges, or removes them if the database does not answer. */
    readonly refresh: Effect.Effect<void>
    /** Measures without updating them; None if the database does not answer within its own time limits. */
    readonly measured: Effect.Effect<Option.Option<typeof Store.Measured.Type>>
  }
>()("service/operator/Gauges") {
  static readonly layer = Layer.effect(
    Gauges,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const clock = yield* DatabaseClock
      const { state } = yield* Backups
      const { bridge, identity } = yield* Settings
      const tenth = Duration.times(bridge.tokenTtl, 0.1)

      const measure = Effect.gen(function* () {
        const now = yield* clock.now
        return yield* store.measure(now, after(now, tenth))
      })
      const orNone = Effect.catchCause(() => Effect.succeed(Option.none<typeof Store.Measured.Type>()))
      const show = (row: Option.Option<typeof Store.Measured.Type>) =>
        Effect.forEach(
          Object.entries(gauges) as ReadonlyArray<[Column, Metric.Gauge<number>]>,
          ([column, gauge]) => (Option.isSome(row) ? Metric.update(gauge, row.value[column]) : Metric.remove(gauge)),
          { discard: true }
        )
      const { service_revision: revision } = identity
      yield* Metric.update(
        gauge("service_build_info", "Always 1; the labels name the running version", { version, revision }),
        1
      )

      /** Without a good backup the time is 0. */
      const showBackups = Effect.gen(function* () {
        const found = yield* state
        if (Option.isNone(found)) return
        yield* Metric.update(backupInterval, found.value.every_seconds)
        for (const column of ["last_good_at", "last_restored_at"] as const) {
          yield* Metric.update(backupGauges[column], (found.value[column]?.getTime() ?? 0) / 1000)
        }
      })

      const refresh = Effect.gen(function* () {
        yield* showBackups
        const row = yield* measure.pipe(Effect.timeout("2 seconds"), orNone)
        yield* Metric.update(up, Option.isSome(row) ? 1 : 0)
        yield* show(row)
      })
      return { refresh: yield* Effect.cachedWithTTL(refresh, "5 seconds"), measured: orNone(measure) }
    })
  )
}
