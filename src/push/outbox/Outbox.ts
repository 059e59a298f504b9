/**
 * Where a change leaves a notification of itself (spec 6.3): in its own transaction, as clauses of its statement
 * (wire/PushRow.ts) or as a statement of its own. What becomes of the rows is the worker's affair.
 *
 * Whether a device wants the kind is decided here and again when it is delivered; when it may ring, only then.
 */
import { Context, Effect, Layer, Queue } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import type { KindName } from "../../wire/mobile/Notifications.ts"
import { notified } from "../../platform/sql/PushRow.ts"

export class Outbox extends Context.Service<
  Outbox,
  {
    /** A notification as a statement of its own, inside the transaction of the change. */
    readonly enqueue: (
      now: Date,
      notice: {
        readonly kind: KindName
        readonly event_id: string
        readonly project_id: string
        readonly about: string
        readonly only?: Statement.Fragment
      }
    ) => Effect.Effect<void, SqlError.SqlError>
    /** Tells the worker of this process, once the transaction is committed; others see it within a second. */
    readonly ring: Effect.Effect<void>
    /** Waits for the next ring. */
    readonly rung: Effect.Effect<void>
  }
>()("service/push/Outbox") {
  static readonly layer = Layer.effect(
    Outbox,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const bell = yield* Queue.sliding<void>(1)
      const ring = sql.afterCommit(Effect.asVoid(Queue.offer(bell, undefined)))

      const enqueue = Effect.fn("Outbox.enqueue")(function* (
        now: Date,
        { about, event_id, kind, only, project_id }: Parameters<typeof Outbox.Service.enqueue>[1]
      ) {
        yield* sql`
          with event as (
            select ${event_id}::uuid as event_id, ${project_id}::uuid as project_id, ${about}::uuid as about
          ), ${notified(sql, now, {
            kind,
            from: "event",
            event: sql`e.event_id`,
            project: sql`e.project_id`,
            about: sql`e.about`,
            ...(only && { only })
          })}
          select delivery_id from notified`
        yield* ring
      })

      return { enqueue, ring, rung: Queue.take(bell) }
    })
  )
}
