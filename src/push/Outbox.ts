/**
 * Where a change leaves a notification of itself (spec 6.3): in its own transaction, so that neither exists without the
 * other. Every domain may use it; what becomes of the rows is the worker's affair.
 *
 * Whether a device wants the kind is decided here and again when it is delivered; when it may ring, only then.
 */
import { Context, Duration, Effect, Layer, Queue } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import { type KindName, kinds, priorities, rank } from "./Api.ts"

export interface Notice {
  readonly kind: KindName
  /** The clause whose rows are the events; the expressions below call it `e`. */
  readonly from: string
  /** A uuid each; an event that comes again rings nobody twice. */
  readonly event: Statement.Fragment
  readonly project: Statement.Fragment
  /** The uuid of what it is about: an opaque id that the app may ask the service for. */
  readonly about: Statement.Fragment
  /** A condition on the device `d`; absent: every device of the project. */
  readonly only?: Statement.Fragment
}

/**
 * The clauses `heard`, `outdated` and `notified`, for a statement that has changed something: one row per device that
 * wants to hear of it. Where the project has no device it costs one look into an index.
 */
export const notified = (sql: SqlClient.SqlClient, now: Date, { about, event, from, kind, only, project }: Notice) => {
  const { byDefault, collapse, lasts, optional, priority } = kinds[kind]
  const expires_at = new Date(now.getTime() + Duration.toMillis(lasts))
  const wanted = sql`
         and coalesce((d.preferences -> 'kinds' ->> ${kind})::boolean, ${byDefault}::boolean)
         and array_position(${priorities}::text[], d.preferences ->> 'minimum_priority') <= ${rank(priority) + 1}::int`
  return sql`
    heard as materialized (
      select ${event} as event_id, d.device_id, d.project_id, ${about} as reference,
             ${`${collapse}:`}::text || ${about}::text as collapse_key
        from ${sql.literal(from)} e
        join mobile_device d on d.project_id = ${project}
       where d.state = 'active'
         and ${only ?? sql`true`} ${optional ? wanted : sql``}
    ), outdated as (
      -- What somebody else has locked is being delivered or outdated already: nobody waits here.
      update push_outbox
         set state = 'superseded', settled_at = ${now}::timestamptz
       where delivery_id in (
         select o.delivery_id
           from push_outbox o
           join heard on o.device_id = heard.device_id and o.collapse_key = heard.collapse_key
          where o.state = 'pending'
            for update of o skip locked)
    ), notified as (
      insert into push_outbox (
        delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
        expires_at, created_at)
      select gen_random_uuid(), event_id, device_id, project_id, ${kind}::text, reference,
             ${rank(priority)}::smallint, collapse_key, 'pending', ${now}::timestamptz, ${expires_at}::timestamptz,
             ${now}::timestamptz
        from heard
          on conflict (event_id, device_id) do nothing
      returning delivery_id
    )`
}

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
