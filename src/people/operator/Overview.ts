/** The overview that `service-admin status` shows: counts, what expires soon, what waits to be sent, limits, refusals. */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Backups, type BackupState } from "../../platform/backups/Backups.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type WorkerProcess, workersAt } from "../../platform/process/PortHolder.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { type Pause, PushAdmin } from "../../push/admin/PushAdmin.ts"
import { after } from "../../wire/Instant.ts"
import * as Store from "./OverviewStore.ts"

export interface Status {
  readonly at: Date
  readonly numbers: typeof Store.Numbers.Type
  /** Push environments with failures, and when their pause ends. */
  readonly pauses: ReadonlyArray<Pause>
  /** Limits of projects that are used by half or more, the fullest first. */
  readonly limits: ReadonlyArray<typeof Store.Fullest.Type>
  /** The service's own backups; null without SERVICE_BACKUP_DIR. */
  readonly backups: BackupState | null
  /** The workers of the service on this machine; none of a single process, or where the machine does not tell. */
  readonly processes: ReadonlyArray<WorkerProcess>
  /** Refusals of the last 24 hours, most recent first. */
  readonly refused: ReadonlyArray<typeof Store.Refused.Type>
}

export class Overview extends Context.Service<
  Overview,
  { readonly take: Effect.Effect<Status, SharedRefusal<"bridge_persistence_error">> }
>()("service/operator/Overview") {
  static readonly layer = Layer.effect(
    Overview,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const clock = yield* DatabaseClock
      const push = yield* PushAdmin
      const { state } = yield* Backups
      const { bridge, http } = yield* Settings
      const tenth = Duration.times(bridge.tokenTtl, 0.1)

      const take = Effect.gen(function* () {
        const at = yield* clock.now
        const dayAgo = after(at, Duration.days(-1))
        const numbers = yield* store.numbers(at, after(at, tenth), dayAgo)
        const pauses = yield* push.pauses
        const limits = yield* store.fullest
        const refused = yield* store.refused(dayAgo)
        const backups = Option.getOrNull(yield* state)
        const processes = workersAt(http.port)
        return { at, numbers: Option.getOrThrow(numbers), pauses, limits, backups, processes, refused }
      }).pipe(Effect.withSpan("Overview.take"), persistence)
      return { take }
    })
  )
}
