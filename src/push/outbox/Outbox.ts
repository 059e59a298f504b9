/**
 * Writes the notifications of a change in the transaction of that change (spec 6.3), and wakes the worker.
 *
 * A proof and the end of a rotation are single statements and contain the clauses of platform/sql/PushRow.ts instead.
 * They do not wake the worker: its next poll finds their rows.
 *
 * Whether a device wants the kind is checked here and again before sending; quiet hours and pauses only before sending.
 * A project that raises more about its tasks or its sign-ins than anybody reads gets no further ones of these.
 */
import { Context, Effect, Layer, Queue } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { logFault } from "../../platform/database/FaultLog.ts"
import { bucketsIn, giveBackAll, projectsWith, takeAll } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { Workers } from "../../platform/workers/Workers.ts"
import { type Lane, lanes, type NotificationKind, notificationKinds } from "../../wire/mobile/Notifications.ts"
import * as Store from "./OutboxStore.ts"

/**
 * About the tasks of one project, or about its sign-ins, of which one project token has half. Each leaves a row for each of
 * its phones for 30 days.
 */
const noticeRate = { perSecond: 6 / 60, burst: 200 }

/**
 * What the people and agents of a project raise as often as they like. The rest follows an operator or a Bridge, or has a limit
 * of its own; and nobody should be able to use up `security.device_added`.
 */
const isLimited = (kind: NotificationKind) =>
  notificationKinds[kind].category === "TASK" || kind === "security.client_authorized"

export interface Notice extends Store.Notice {
  /** The project token or Bridge that raises it; absent or empty for an operator. */
  readonly subject?: string
}

export class Outbox extends Context.Service<
  Outbox,
  {
    /** Inside the transaction of the change: one row for each device that wants the kind, then `wake`. */
    readonly enqueue: (now: Date, notice: Notice) => Effect.Effect<void, SqlError.SqlError>
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
      const draws = projectsWith(bucketsIn(yield* Settings))(noticeRate)
      const wakeUps = new Map<Lane, Queue.Queue<void>>()
      for (const lane of lanes) wakeUps.set(lane, yield* Queue.sliding<void>(1))
      const wakeOwn = () => wakeUps.forEach((queue) => Queue.offerUnsafe(queue, undefined))
      const workers = yield* Workers
      yield* workers.onWake(wakeOwn)
      const wake = sql.afterCommit(workers.isFirst ? Effect.sync(wakeOwn) : workers.tell("wake"))

      const drawsOf = ({ kind, project_id, subject = "" }: Notice) => {
        if (!isLimited(kind)) return []
        const key = `${notificationKinds[kind].category} ${project_id}`
        return draws({ project_id: key, subject: `${key} ${subject}` })
      }

      const enqueue = Effect.fn("Outbox.enqueue")(function* (now: Date, notice: Notice) {
        const { project_id } = notice
        const drawn = drawsOf(notice)
        if ((yield* takeAll(drawn)) > 0) return yield* logFault("Too many notifications", { project_id })
        const queued = yield* Effect.ensuring(store.enqueue(now, notice), giveBackAll(drawn))
        // Neither what no device wants to hear of nor an attempt whose transaction fails must silence the next one.
        if (queued.length > 0) yield* sql.afterCommit(Effect.asVoid(takeAll(drawn)))
        yield* wake
      })

      return { enqueue, wake, woken: (lane) => Queue.take(wakeUps.get(lane)!) }
    })
  )
}
