/** What an answer of APNs does to delivery, device and environment (decisions.md, What an answer of APNs means). */
import { assert, layer } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { pushPauses } from "../../../src/platform/metrics/Metrics.ts"
import type { Fault } from "../../support/phones/ApnsSimulator.ts"
import { deliveriesOf, Delivery, drain, notify, outcomesOf } from "../../support/service/Delivery.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const now = Effect.clockWith((clock) => clock.currentTimeMillis)

/** A registered phone, without notifications or pauses of earlier tests. */
const fresh = Effect.gen(function* () {
  const on = yield* Delivery
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from push_outbox`
  yield* sql`delete from push_provider_state`
  on.simulator.next.length = 0
  on.simulator.faults.clear()
  const person = yield* makePerson(on)
  const phone = yield* makeRegisteredPhone(on, person)
  return { on, person, phone, sql }
})

const deviceOf = (device_id: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly state: string; readonly state_reason: string | null; readonly sealed: boolean }>`
        select state, state_reason, token_sealed is not null as sealed
          from mobile_device
         where device_id = ${device_id}::uuid`,
      ([row]) => row!
    )
  )

const pauseOf = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ readonly paused_until: Date | null; readonly reason: string | null; readonly failures: number }>`
      select paused_until, reason, failures
        from push_provider_state
       where environment = 'production'`,
    ([row]) => row
  )
)

/** How often delivery to production paused because of the configuration, and because of the provider. */
const causesOfPauses = Effect.forEach(["configuration", "provider"], (cause) =>
  Effect.map(Metric.value(pushPauses("production", cause)), (state) =>
    Number((state as Metric.CounterState<number>).count)
  )
)

/** Sends one notification that meets the fault; returns its row, what is counted, and the seconds until it is due again. */
const sendAgainst = Effect.fnUntraced(function* (fault: Fault) {
  const given = yield* fresh
  given.on.simulator.next.push(fault)
  const start = yield* now
  yield* notify(given.on, given.person.project_id)
  const counted = yield* outcomesOf(given.on.worker.round)
  const [row] = yield* deliveriesOf(given.phone.device_id)
  return { ...given, counted, row: row!, waitSeconds: (row!.not_before.getTime() - start) / 1000 }
})

const pauses: ReadonlyArray<readonly [status: number, reason: string, seconds: number, retryAfter?: number]> = [
  [500, "InternalServerError", 900],
  [503, "ServiceUnavailable", 900],
  [503, "ServiceUnavailable", 7, 7],
  [503, "Shutdown", 900],
  [429, "TooManyProviderTokenUpdates", 1200],
  [400, "DeviceTokenNotForTopic", 900],
  [400, "TopicDisallowed", 900],
  [400, "MissingTopic", 900],
  [400, "BadTopic", 900],
  [403, "BadEnvironmentKeyInToken", 900],
  [403, "InvalidProviderToken", 900],
  [403, "MissingProviderToken", 900],
  [403, "Forbidden", 900],
  [403, "BadCertificate", 900],
  [403, "BadCertificateEnvironment", 900],
  [403, "ExpiredProviderToken", 900]
]

const mistakes: ReadonlyArray<readonly [status: number, reason: string]> = [
  [400, "PayloadEmpty"],
  [413, "PayloadTooLarge"],
  [400, "BadCollapseId"],
  [400, "BadExpirationDate"],
  [400, "BadPriority"],
  [400, "BadMessageId"],
  [400, "InvalidPushType"],
  [400, "DuplicateHeaders"],
  [404, "BadPath"],
  [405, "MethodNotAllowed"]
]

layer(Delivery.layer)("an answer of APNs", (it) => {
  for (const [status, reason, seconds, retryAfter] of pauses) {
    const withRetryAfter = retryAfter === undefined ? "" : " with Retry-After"
    it.effect(`${status} ${reason}${withRetryAfter} pauses the environment and counts no attempt`, () =>
      Effect.gen(function* () {
        const start = yield* now
        const before = yield* causesOfPauses
        const { counted, on, phone, row } = yield* sendAgainst({ status, reason, ...(retryAfter && { retryAfter }) })
        assert.deepStrictEqual(counted, { paused: 1 })
        const isOfProvider = status >= 500 || status === 429
        assert.deepStrictEqual(
          (yield* causesOfPauses).map((count, at) => count - before[at]!),
          isOfProvider ? [0, 1] : [1, 0]
        )
        assert.deepInclude(row, { state: "pending", attempts: 0, last_status: status, last_reason: reason })
        const pause = yield* pauseOf
        assert.deepInclude(pause, { reason, failures: 1 })
        assert.strictEqual((pause!.paused_until!.getTime() - start) / 1000, seconds)
        assert.deepInclude(yield* deviceOf(phone.device_id), { state: "active", sealed: true })
        const { requests } = on.simulator
        yield* drain(on.worker)
        assert.strictEqual(on.simulator.requests, requests)
      })
    )
  }

  for (const [status, reason] of mistakes) {
    it.effect(`${status} ${reason} is our mistake: it makes a dead letter and pauses nothing`, () =>
      Effect.gen(function* () {
        const { counted, phone, row } = yield* sendAgainst({ status, reason })
        assert.deepStrictEqual(counted, { dead: 1 })
        assert.deepInclude(row, { state: "dead", attempts: 1, last_status: status, last_reason: reason })
        assert.deepInclude(yield* deviceOf(phone.device_id), { state: "active" })
        assert.isUndefined(yield* pauseOf)
      })
    )
  }

  for (const reason of ["Unregistered", "ExpiredToken"]) {
    it.effect(`410 ${reason} ends the device and deletes its push token`, () =>
      Effect.gen(function* () {
        yield* TestClock.adjust("1 day")
        // So soon after 1970 it is read as seconds.
        const gone = { status: 410, reason, timestamp: (yield* now) / 1000 + 1 }
        const { counted, on, person, phone, row } = yield* sendAgainst(gone)
        assert.deepStrictEqual(counted, { gone: 1 })
        assert.deepInclude(row, { state: "suppressed", last_status: 410 })
        const device = yield* deviceOf(phone.device_id)
        assert.deepInclude(device, { state: "inactive", state_reason: reason, sealed: false })
        yield* notify(on, person.project_id)
        assert.strictEqual((yield* deliveriesOf(phone.device_id)).length, 1)
      })
    )
  }

  it.effect("410 from before the token was registered is believed when it is repeated", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 day")
      const gone = { status: 410, reason: "Unregistered", timestamp: 1 }
      const { on, phone, row } = yield* sendAgainst(gone)
      assert.deepInclude(row, { state: "pending", attempts: 1 })
      assert.deepInclude(yield* deviceOf(phone.device_id), { state: "active" })
      on.simulator.next.push(gone)
      yield* TestClock.adjust("5 seconds")
      yield* drain(on.worker)
      assert.deepInclude(yield* deviceOf(phone.device_id), { state: "inactive" })
    })
  )

  it.effect("410 from before the token was registered is not believed after a failure of another kind", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 day")
      const { on, phone } = yield* sendAgainst("hang")
      on.simulator.next.push({ status: 410, reason: "Unregistered", timestamp: 1 })
      yield* TestClock.adjust("5 seconds")
      yield* on.worker.round
      const [row] = yield* deliveriesOf(phone.device_id)
      assert.deepInclude(row, { state: "pending", attempts: 2, last_status: 410 })
      assert.deepInclude(yield* deviceOf(phone.device_id), { state: "active" })
    })
  )

  it.effect("400 BadDeviceToken ends the device", () =>
    Effect.gen(function* () {
      const { phone, row } = yield* sendAgainst({ status: 400, reason: "BadDeviceToken" })
      assert.deepInclude(row, { state: "suppressed", last_reason: "BadDeviceToken" })
      assert.deepInclude(yield* deviceOf(phone.device_id), { state: "inactive", sealed: false })
    })
  )

  for (const [reason, count] of [
    ["BadDeviceToken", 12],
    ["DeviceTokenNotForTopic", 1]
  ] as const) {
    it.effect(`400 ${reason} for ${count} of one project delays these devices only, once others were accepted`, () =>
      Effect.gen(function* () {
        const { on, person, phone } = yield* fresh
        const hostile = yield* makePerson(on)
        const phones = yield* Effect.forEach(Array.from({ length: count }), () => makeRegisteredPhone(on, hostile))
        yield* drain(on.worker)
        yield* notify(on, person.project_id)
        yield* drain(on.worker)
        for (const { token } of phones) on.simulator.faults.set(token, { status: 400, reason })
        yield* notify(on, hostile.project_id)
        yield* drain(on.worker)
        const { requests } = on.simulator
        yield* notify(on, hostile.project_id)
        yield* notify(on, person.project_id)
        yield* drain(on.worker)
        assert.isUndefined(yield* pauseOf)
        assert.strictEqual(on.simulator.requests, requests + 1)
        assert.strictEqual(on.simulator.received.filter(({ token }) => token === phone.token).length, 2)
        const states = yield* Effect.forEach(phones, ({ device_id }) => deviceOf(device_id))
        assert.isTrue(states.every(({ state }) => state === "active"))
      })
    )
  }

  it.effect("429 TooManyRequests delays this device only", () =>
    Effect.gen(function* () {
      const { on, person, phone, row, waitSeconds } = yield* sendAgainst({ status: 429, reason: "TooManyRequests" })
      assert.deepInclude(row, { state: "pending", attempts: 1 })
      assert.isAtLeast(waitSeconds, 60)
      assert.isUndefined(yield* pauseOf)
      const other = yield* makeRegisteredPhone(on, person)
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      const receivedBy = (token: string) => on.simulator.received.filter((received) => received.token === token).length
      assert.deepStrictEqual([receivedBy(phone.token), receivedBy(other.token)], [0, 1])
      yield* TestClock.adjust("2 minutes")
      yield* drain(on.worker)
      assert.strictEqual(receivedBy(phone.token), 3)
    })
  )

  it.effect("429 with Retry-After is obeyed", () =>
    Effect.gen(function* () {
      const { waitSeconds } = yield* sendAgainst({ status: 429, reason: "TooManyRequests", retryAfter: 300 })
      assert.isAtLeast(waitSeconds, 300)
    })
  )

  it.effect("no answer in time is retried with the same delivery id", () =>
    Effect.gen(function* () {
      const { counted, on, phone, row } = yield* sendAgainst("hang")
      assert.deepStrictEqual(counted, { retried: 1 })
      assert.deepInclude(row, { state: "pending", attempts: 1, last_status: null, last_reason: "timeout" })
      yield* TestClock.adjust("5 seconds")
      yield* drain(on.worker)
      const [delivered] = yield* deliveriesOf(phone.device_id)
      assert.deepInclude(delivered, { state: "delivered", attempts: 2, delivery_id: row.delivery_id })
    })
  )

  it.effect("a connection lost before the answer sends it twice, and the phone shows one", () =>
    Effect.gen(function* () {
      const { on, phone } = yield* sendAgainst("take and kill")
      yield* TestClock.adjust("5 seconds")
      yield* drain(on.worker)
      const received = on.simulator.received.filter(({ token }) => token === phone.token)
      assert.strictEqual(received.length, 2)
      assert.strictEqual(
        new Set(received.map(({ collapse_id, delivery_id }) => `${collapse_id} ${delivery_id}`)).size,
        1
      )
      assert.strictEqual(on.simulator.shown.get(phone.token)!.size, 1)
    })
  )

  it.effect("a refused stream is sent again at once, without counting an attempt", () =>
    Effect.gen(function* () {
      const { counted, row } = yield* sendAgainst("refuse")
      assert.deepStrictEqual(counted, { delivered: 1 })
      assert.deepInclude(row, { state: "delivered", attempts: 1 })
    })
  )

  it.effect("IdleTimeout is sent again at once, without counting an attempt", () =>
    Effect.gen(function* () {
      const { row } = yield* sendAgainst({ status: 400, reason: "IdleTimeout" })
      assert.deepInclude(row, { state: "delivered", attempts: 1 })
    })
  )

  it.effect("whose reason is not one word keeps none of it", () =>
    Effect.gen(function* () {
      const { row } = yield* sendAgainst({ status: 400, reason: "no such phone: 0123" })
      assert.deepInclude(row, { state: "dead", last_status: 400, last_reason: null })
    })
  )

  it.effect("after eight attempts it is a dead letter", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* fresh
      on.simulator.faults.set(phone.token, { status: 429, reason: "TooManyRequests" })
      yield* notify(on, person.project_id, "bridge.revoked")
      for (let attempt = 0; attempt < 8; attempt++) {
        yield* drain(on.worker)
        yield* TestClock.adjust("2 hours")
      }
      const [row] = yield* deliveriesOf(phone.device_id)
      assert.deepInclude(row, { state: "dead", attempts: 8 })
    })
  )
})

layer(Delivery.layer)("before any delivery was accepted", (it) => {
  it.effect("400 BadDeviceToken for many devices at once pauses the environment and ends no device", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* fresh
      const phones = yield* Effect.forEach(Array.from({ length: 12 }), () => makeRegisteredPhone(on, person))
      for (const { token } of [phone, ...phones])
        on.simulator.faults.set(token, { status: 400, reason: "BadDeviceToken" })
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      const states = yield* Effect.forEach(phones, ({ device_id }) => deviceOf(device_id))
      assert.isTrue(states.every(({ state }) => state === "active"))
      assert.deepInclude(yield* pauseOf, { reason: "BadDeviceToken" })
    })
  )

  it.effect("400 BadDeviceToken for one device after another ends four devices and then pauses", () =>
    Effect.gen(function* () {
      const { on, person, sql } = yield* fresh
      const phones = yield* Effect.forEach(Array.from({ length: 12 }), () => makeRegisteredPhone(on, person))
      yield* sql`delete from push_outbox`
      for (const { token } of phones) on.simulator.faults.set(token, { status: 400, reason: "BadDeviceToken" })
      for (const { device_id } of phones) {
        yield* notifyDevice(device_id, person.project_id)
        yield* drain(on.worker)
      }
      const states = yield* Effect.forEach(phones, ({ device_id }) => deviceOf(device_id))
      assert.strictEqual(states.filter(({ state }) => state === "active").length, 8)
      assert.deepInclude(yield* pauseOf, { reason: "BadDeviceToken" })
    })
  )
})

layer(Delivery.layer)("a pause", (it) => {
  it.effect("ends with one probe, and after its success delivers the rest", () =>
    Effect.gen(function* () {
      const { on, person } = yield* sendAgainst({ status: 503, reason: "ServiceUnavailable" })
      for (let i = 0; i < 5; i++) yield* notify(on, person.project_id)
      yield* TestClock.adjust("15 minutes")
      assert.strictEqual(yield* on.worker.round, 1)
      assert.deepInclude(yield* pauseOf, { paused_until: null, failures: 0 })
      assert.strictEqual(yield* on.worker.round, 5)
    })
  )

  it.effect("stays if its probe sent nothing", () =>
    Effect.gen(function* () {
      const { on, phone, sql } = yield* sendAgainst({ status: 503, reason: "ServiceUnavailable" })
      yield* TestClock.adjust("15 minutes")
      const later = new Date((yield* now) + 60_000)
      yield* sql`update mobile_device set resting_until = ${later} where device_id = ${phone.device_id}::uuid`
      assert.strictEqual(yield* on.worker.round, 0)
      assert.deepInclude(yield* pauseOf, { failures: 1 })
    })
  )

  it.effect("that a notification may have caused is probed with another one, though it matters less", () =>
    Effect.gen(function* () {
      const { on, person, phone, sql } = yield* sendAgainst({ status: 403, reason: "InvalidProviderToken" })
      yield* sql`update mobile_device set preferences = jsonb_set(preferences, '{kinds,task.completed}', 'true')`
      yield* notify(on, person.project_id, "task.completed")
      yield* TestClock.adjust("15 minutes")
      assert.strictEqual(yield* on.worker.round, 1)
      const rows = yield* deliveriesOf(phone.device_id)
      assert.sameDeepMembers(
        rows.map(({ kind, state }) => [kind, state]),
        [
          ["task.blocked", "pending"],
          ["task.completed", "delivered"]
        ]
      )
    })
  )

  it.effect("doubles up to an hour while the probes fail", () =>
    Effect.gen(function* () {
      const { on, person } = yield* sendAgainst({ status: 503, reason: "ServiceUnavailable" })
      yield* notify(on, person.project_id, "bridge.enrolled")
      for (const seconds of [1800, 3600, 3600]) {
        yield* TestClock.adjust("1 hour")
        const start = yield* now
        on.simulator.next.push({ status: 503, reason: "ServiceUnavailable" })
        yield* on.worker.round
        assert.strictEqual(((yield* pauseOf)!.paused_until!.getTime() - start) / 1000, seconds)
      }
    })
  )

  it.effect("stops the rest of its batch: at most the fifty deliveries in flight are tried", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* fresh
      on.simulator.faults.set(phone.token, { status: 503, reason: "ServiceUnavailable" })
      yield* Effect.repeat(notify(on, person.project_id), { times: 79 })
      const { requests } = on.simulator
      assert.strictEqual(yield* on.worker.round, 80)
      assert.isAtMost(on.simulator.requests - requests, 50)
      assert.deepInclude(yield* pauseOf, { failures: 1 })
      const rows = yield* deliveriesOf(phone.device_id)
      assert.isTrue(rows.every(({ attempts, state }) => state === "pending" && attempts === 0))
      assert.isAtLeast(rows.filter(({ last_reason }) => last_reason === "paused").length, 30)
    })
  )

  it.effect("of one environment does not pause the other", () =>
    Effect.gen(function* () {
      const { on, person } = yield* sendAgainst({ status: 503, reason: "ServiceUnavailable" })
      const other = yield* makeRegisteredPhone(on, person, { push: { environment: "development" } })
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      assert.strictEqual(on.simulator.received.filter(({ token }) => token === other.token).length, 1)
    })
  )
})

/** Writes a notification for this device only. */
const notifyDevice = Effect.fnUntraced(function* (device_id: string, project_id: string) {
  const sql = yield* SqlClient.SqlClient
  const at = new Date(yield* now)
  yield* sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
      expires_at, created_at)
    values (gen_random_uuid(), gen_random_uuid(), ${device_id}::uuid, ${project_id}::uuid, 'task.blocked',
            gen_random_uuid(), 2, 't:' || gen_random_uuid()::text, 'pending', ${at},
            ${new Date(at.getTime() + 86_400_000)}, ${at})`
})
