/** The service with push delivery: an APNs simulator, and workers that a test runs round by round. */
import { Context, Duration, Effect, Layer, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { createPrivateKey, randomUUID } from "node:crypto"
import { pushed, pushOutcomes } from "../../../src/platform/metrics/Metrics.ts"
import { makeApns } from "../../../src/push/channels/apns/Apns.ts"
import { Outbox } from "../../../src/push/outbox/Outbox.ts"
import { PushProvider } from "../../../src/push/channels/Provider.ts"
import { Worker } from "../../../src/push/delivery/Worker.ts"
import { type NotificationKind, notificationKinds, rank } from "../../../src/wire/mobile/Notifications.ts"
import { type ApnsSimulator, apnsSimulator } from "../phones/ApnsSimulator.ts"
import { instance } from "./Service.ts"
import { TestDatabase } from "../database/TestDatabase.ts"

/** An APNs client of the simulator. Sockets ignore TestClock, so the deadline is real: two seconds by default. */
export const apnsOf = (
  simulator: ApnsSimulator,
  {
    concurrency = 50,
    deadline = Duration.seconds(2),
    idle = Duration.minutes(1),
    now = Effect.sync(() => new Date())
  } = {}
) =>
  makeApns({
    origins: { production: simulator.origin, development: simulator.origin },
    ca: simulator.ca,
    signer: { teamId: simulator.teamId, keyId: simulator.keyId, key: createPrivateKey(simulator.key) },
    now,
    deadline,
    idle,
    concurrency
  })

export type Replica = Effect.Success<ReturnType<typeof instance>>

export const workerOf = ({ services }: Replica, provider: typeof PushProvider.Service) =>
  Layer.build(Layer.fresh(Worker.layer)).pipe(
    Effect.provideContext(Context.merge(services, Context.make(PushProvider, provider)) as never),
    Effect.map((context) => Context.get(context as Context.Context<Worker>, Worker))
  )

const make = Effect.gen(function* () {
  const simulator = yield* apnsSimulator()
  const replica = yield* instance({ SERVICE_APNS_TOPICS: simulator.topic })
  const worker = yield* workerOf(replica, yield* apnsOf(simulator))
  return { ...replica, simulator, worker }
})

export class Delivery extends Context.Service<Delivery, Effect.Success<typeof make>>()("test/Delivery") {
  static readonly layer = Layer.effect(Delivery, make).pipe(Layer.provideMerge(TestDatabase.sql))
}

/** Writes a notification to the phones of the project, as a change would; returns the id that it is about. */
export const notify = Effect.fnUntraced(function* (
  { services }: Replica,
  project_id: string,
  kind: NotificationKind = "task.blocked",
  about: string = randomUUID()
) {
  const outbox = Context.get(services, Outbox)
  const sql = Context.get(services, SqlClient.SqlClient)
  const now = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
  const notice = { kind, event_id: randomUUID(), project_id, about, subject: randomUUID() }
  yield* sql.withTransaction(outbox.enqueue(now, notice))
  return about
})

/** Writes notifications of a device, each about something else. The newest has waited for `seconds`, the others for longer. */
export const leaveWaiting = Effect.fnUntraced(function* (
  device_id: string,
  kind: NotificationKind,
  count: number,
  seconds: number
) {
  const sql = yield* SqlClient.SqlClient
  const now = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
  const { lasts, priority } = notificationKinds[kind]
  yield* sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at, created_at)
    select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, ${kind}::text, ${rank(priority)}::smallint,
           gen_random_uuid()::text, 'pending', at, at + ${Duration.toHours(lasts)}::int * interval '1 hour', at
      from mobile_device d
     cross join generate_series(1, ${count}::int) n
     cross join lateral (select ${now}::timestamptz - (${seconds}::int + n - 1) * interval '1 second' as at) written
     where d.device_id = ${device_id}::uuid`
})

/** Runs rounds until nothing is due; returns how many deliveries were claimed. */
export const drain = Effect.fnUntraced(function* ({ round }: typeof Worker.Service) {
  let total = 0
  for (let claimed = yield* round; claimed > 0; claimed = yield* round) total += claimed
  return total
})

/** The outcomes that are counted for production while an effect runs, with their number. */
export const outcomesOf = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const counts = Effect.forEach(pushOutcomes, (outcome) =>
      Effect.map(Metric.value(pushed("production", outcome)), (state) =>
        Number((state as Metric.CounterState<number>).count)
      )
    )
    const before = yield* counts
    yield* self
    const after = yield* counts
    const changes = pushOutcomes.map((outcome, at) => [outcome, after[at]! - before[at]!] as const)
    return Object.fromEntries(changes.filter(([, count]) => count !== 0))
  })

/** The notifications of a device, oldest first. */
export const deliveriesOf = (device_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql<{
      readonly delivery_id: string
      readonly kind: string
      readonly state: string
      readonly attempts: number
      readonly not_before: Date
      readonly last_status: number | null
      readonly last_reason: string | null
    }>`
      select delivery_id, kind, state, attempts, not_before, last_status, last_reason
        from push_outbox
       where device_id = ${device_id}::uuid
       order by created_at, priority desc`
  )
