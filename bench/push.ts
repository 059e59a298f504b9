/**
 * Notifications from the outbox to the provider, and what a provider that hangs does to everybody else.
 *
 *   - end to end: the service claims, decrypts, sends and settles, in a process of its own;
 *   - the same client of APNs alone, to the same simulator, as fast as it can;
 *   - the latency of the mobile API while notifications flow, and while no request to APNs is ever answered.
 * The simulator runs in this process for both.
 */
import { NodeRuntime } from "@effect/platform-node"
import { ConfigProvider, Context, Effect, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes, randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { services } from "../src/App.ts"
import { apnsSimulator } from "../test/support/ApnsSimulator.ts"
import { apnsOf } from "../test/support/Delivery.ts"
import { everything, makePhone } from "../test/support/Phone.ts"
import { dataFolder } from "../test/support/PostgresUser.ts"
import { makePerson } from "../test/support/SignIn.ts"
import * as harness from "./harness.ts"
import { figure, ratio, report } from "./report.ts"

const count = 5000
const devices = 10

const main = Effect.gen(function* () {
  const simulator = yield* apnsSimulator()
  const data = yield* dataFolder()
  const port = yield* harness.freePort
  const url = `http://127.0.0.1:${port}`
  const file = (name: string, text: string) => {
    const path = `${data}-${name}`
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }
  const environment = {
    SERVICE_DATA_DIR: data,
    SERVICE_PORT: String(port),
    SERVICE_RATE_LIMITS: "off",
    SERVICE_LOG_LEVEL: "Fatal",
    SERVICE_APNS_TEAM_ID: simulator.teamId,
    SERVICE_APNS_KEY_ID: simulator.keyId,
    SERVICE_APNS_KEY_FILE: file("apns.p8", simulator.key),
    SERVICE_APNS_TOPICS: simulator.topic,
    SERVICE_APNS_ORIGIN_PRODUCTION: simulator.origin,
    SERVICE_APNS_ORIGIN_DEVELOPMENT: simulator.origin,
    SERVICE_APNS_CA_FILE: file("apns-ca.pem", simulator.ca)
  }
  yield* harness.started(["src/main.ts"], environment)
  yield* harness.answers(`${url}/readyz`)
  const context = yield* Layer.build(
    services.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
  )
  const sql = Context.get(context, SqlClient.SqlClient)
  const person = yield* makePerson({ url, services: context } as never)
  const phones = yield* Effect.forEach(Array.from({ length: devices }), () =>
    Effect.gen(function* () {
      const phone = makePhone({ url }, person)
      const { body } = yield* phone.register({ preferences: everything })
      return { ...phone, device_id: body.device_id as string }
    })
  )

  const enqueue = sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
      expires_at, created_at)
    select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, 'task.blocked', gen_random_uuid(), 2,
           't:' || gen_random_uuid(), 'pending', clock_timestamp(), clock_timestamp() + interval '1 day',
           clock_timestamp()
      from mobile_device d
     cross join generate_series(1, ${count / devices}::int)`
  const waiting = Effect.map(
    sql<{ n: number }>`select count(*)::int as n from push_outbox where state in ('pending', 'leased')`,
    ([row]) => row!.n
  )
  const settled = waiting.pipe(
    Effect.flatMap((n) => (n === 0 ? Effect.void : Effect.fail(n))),
    Effect.retry(Schedule.spaced("20 millis"))
  )
  const timed = Effect.fnUntraced(function* (work: Effect.Effect<unknown, unknown, never>) {
    const from = performance.now()
    yield* work
    const seconds = (performance.now() - from) / 1000
    return { count, seconds, per_second: count / seconds, p50_ms: NaN, p99_ms: NaN }
  })

  const { send } = yield* apnsOf(simulator)
  const alone = Effect.forEach(
    Array.from({ length: count }),
    () =>
      send({
        delivery_id: randomUUID(),
        environment: "production",
        topic: simulator.topic,
        token: Redacted.make(randomBytes(32).toString("hex")),
        payload: `{"aps":{"alert":{"loc-key":"N"}}}`,
        collapse_id: randomUUID(),
        immediate: true,
        expires_at: new Date(4e12)
      }),
    { concurrency: 50, discard: true }
  )
  yield* settled
  yield* timed(Effect.andThen(enqueue, settled))
  const { ends, raw } = yield* harness.inTurns({
    ends: () => timed(Effect.andThen(enqueue, settled)),
    raw: () => timed(alone)
  })

  /** Sixteen clients for five seconds. */
  const asking = Effect.promise(async () => {
    const took: Array<number> = []
    const until = performance.now() + 5000
    const client = async (phone: (typeof phones)[number]) => {
      while (performance.now() < until) {
        const from = performance.now()
        const response = await fetch(`${url}/bridge/v1/mobile/devices/${phone.device_id}`, {
          headers: { authorization: `Bearer ${person.bearer}` }
        })
        await response.arrayBuffer()
        if (!response.ok) throw new Error(String(response.status))
        took.push(performance.now() - from)
      }
    }
    await Promise.all(Array.from({ length: 16 }, (_, i) => client(phones[i % devices]!)))
    took.sort((a, b) => a - b)
    const at = (share: number) => took[Math.floor(took.length * share)]!
    return { count: took.length, seconds: 5, per_second: took.length / 5, p50_ms: at(0.5), p99_ms: at(0.99) }
  })
  const flowing = Effect.repeat(Effect.andThen(enqueue, settled), Schedule.forever)
  const { down, up } = yield* harness.inTurns({
    up: () => Effect.raceFirst(asking, Effect.andThen(flowing, Effect.never)),
    down: () =>
      Effect.gen(function* () {
        for (const { token } of phones) simulator.faults.set(token, "hang")
        yield* enqueue
        const measured = yield* asking
        simulator.faults.clear()
        yield* sql`delete from push_outbox`
        yield* sql`delete from push_provider_state`
        return measured
      })
  })

  const rate = (...of: Parameters<typeof figure>) => {
    const { p50_ms: _p50, p99_ms: _p99, ...rest } = figure(...of)
    return rest
  }
  report("push", [
    rate("notifications, outbox to provider", ends, { ratio: ratio("rate", ends, raw) }),
    rate("the client of APNs alone", raw),
    figure("reading a device while notifications flow", up),
    figure("reading a device while APNs does not answer", down, { note: "5,000 notifications wait" })
  ])
})

NodeRuntime.runMain(Effect.scoped(main) as Effect.Effect<void>)
