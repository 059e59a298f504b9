/**
 * Writes the notifications of a change in the transaction of that change (spec 6.3), and wakes the worker.
 *
 * A proof and the end of a rotation are single statements and contain the clauses of platform/sql/PushRow.ts instead.
 * They do not wake the worker: its next poll finds their rows.
 *
 * Whether a device wants the kind is checked here and again before sending; quiet hours and pauses only before sending.
 * A project that raises more about its tasks than anybody reads gets no further ones of these.
 */
import { Context, Effect, Layer, Queue } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { logFault } from "../../platform/database/FaultLog.ts"
import { bucketsOfPart } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { Workers } from "../../platform/workers/Workers.ts"
import { type Lane, lanes, notificationKinds } from "../../wire/mobile/Notifications.ts"
import * as Store from "./OutboxStore.ts"

/** About the tasks of one project. Each leaves a row for each of its phones for 30 days. */
const taskRate = { perSecond: 6 / 60, burst: 200 }

export class Outbox extends Context.Service<
  Outbox,
  {
    /** Inside the transaction of the change: one row for each device that wants the kind, then `wake`. */
    readonly enqueue: (now: Date, notice: Store.Notice) => Effect.Effect<void, SqlError.SqlError>
    /** Wakes every lane of the process that delivers, after the commit; other replicas poll every second. */
    readonly wake: Effect.Effect<void>
    /** Waits for the next `wake`. */
    readonly woken: (lane: Lane) => Effect.Effect<void>
  }
>()("service/push/Outbox") {
  static readonly layer = Layer.effect(
    Outbox,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = Store.make(sql)
      const { http, processes } = yield* Settings
      const buckets = bucketsOfPart(taskRate, processes)
      const wakeUps = new Map<Lane, Queue.Queue<void>>()
      for (const lane of lanes) wakeUps.set(lane, yield* Queue.sliding<void>(1))
      const wakeOwn = () => wakeUps.forEach((queue) => Queue.offerUnsafe(queue, undefined))
      const workers = yield* Workers
      yield* workers.onWake(wakeOwn)
      const wake = sql.afterCommit(workers.isFirst ? Effect.sync(wakeOwn) : workers.tell("wake"))

      const enqueue = Effect.fn("Outbox.enqueue")(function* (now: Date, notice: Store.Notice) {
        if (http.rateLimits && notificationKinds[notice.kind].category === "TASK") {
          const { project_id } = notice
          if ((yield* buckets.take(project_id)) > 0) return yield* logFault("Too many notifications", { project_id })
        }
        yield* store.enqueue(now, notice)
        yield* wake
      })

      return { enqueue, wake, woken: (lane) => Queue.take(wakeUps.get(lane)!) }
    })
  )
}
