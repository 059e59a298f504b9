/**
 * Writes the notifications of a change in the transaction of that change (spec 6.3), and wakes the worker.
 *
 * A proof and the end of a rotation are single statements and contain the clauses of platform/sql/PushRow.ts instead.
 * They do not wake the worker: its next poll finds their rows.
 *
 * Whether a device wants the kind is checked here and again before sending; quiet hours and pauses only before sending.
 */
import { Context, Effect, Layer, Queue } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Store from "./OutboxStore.ts"

export class Outbox extends Context.Service<
  Outbox,
  {
    /** Inside the transaction of the change: one row for each device that wants the kind, then `wake`. */
    readonly enqueue: (now: Date, notice: Store.Notice) => Effect.Effect<void, SqlError.SqlError>
    /** Wakes the worker of this process after the commit; other replicas poll every second. */
    readonly wake: Effect.Effect<void>
    /** Waits for the next `wake`. */
    readonly woken: Effect.Effect<void>
  }
>()("service/push/Outbox") {
  static readonly layer = Layer.effect(
    Outbox,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = Store.make(sql)
      const wakeUps = yield* Queue.sliding<void>(1)
      const wake = sql.afterCommit(Effect.asVoid(Queue.offer(wakeUps, undefined)))

      const enqueue = Effect.fn("Outbox.enqueue")(function* (now: Date, notice: Store.Notice) {
        yield* store.enqueue(now, notice)
        yield* wake
      })

      return { enqueue, wake, woken: Queue.take(wakeUps) }
    })
  )
}
