/** Web push from the change to the push service, over TLS: what it receives, and what its answers mean. */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import { PostNetwork } from "../../../src/platform/network/GuardedPost.ts"
import { PushAdmin } from "../../../src/push/admin/PushAdmin.ts"
import { WebPushKeys } from "../../../src/push/tokens/WebPushKeys.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { decrypt, makeSubscription } from "../../support/phones/Browser.ts"
import { everything, makePhone } from "../../support/phones/Phone.ts"
import { host, makePushService } from "../../support/phones/PushService.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { apnsOf, deliveriesOf, drain, notify, workerOf } from "../../support/service/Delivery.ts"
import { instance } from "../../support/service/Service.ts"
import { apnsSimulator } from "../../support/phones/ApnsSimulator.ts"

const make = Effect.gen(function* () {
  const pushService = yield* makePushService()
  const simulator = yield* apnsSimulator()
  const apns = yield* apnsOf(simulator)
  const replica = (settings: Readonly<Record<string, string>> = {}) =>
    Effect.gen(function* () {
      const on = yield* instance({
        SERVICE_WEBPUSH_HOSTS: host,
        SERVICE_WEBPUSH_CONTACT: "mailto:ops@example.com",
        ...settings
      }).pipe(Effect.provideService(PostNetwork, pushService.network))
      return { ...on, worker: yield* workerOf(on, apns) }
    })
  return { ...(yield* replica()), replica, pushService, simulator }
})

class Web extends Context.Service<Web, Effect.Success<typeof make>>()("test/Web") {
  static readonly layer = Layer.effect(Web, make).pipe(Layer.provideMerge(TestDatabase.sql))
}

let paths = 0
const withBrowser = Effect.gen(function* () {
  const on = yield* Web
  const person = yield* makePerson(on)
  const path = `/send/${++paths}`
  const { browser, push } = yield* Effect.promise(() => makeSubscription(`${on.pushService.origin}${path}`))
  const phone = makePhone(on, person)
  const answer = yield* phone.register({}, { body: { platform: "web", push, preferences: everything } })
  assert.strictEqual(answer.status, 201, answer.text)
  const device_id: string = answer.body.device_id
  yield* SqlClient.SqlClient.use((sql) => sql`delete from push_outbox`)
  const received = () => on.pushService.received.filter((one) => one.path === path)
  return { on, person, phone, push, path, browser, device_id, received, answers: on.pushService.answers }
})

const last = (device_id: string) => Effect.map(deliveriesOf(device_id), (rows) => rows.at(-1)!)

layer(Web.layer)("a browser", (it) => {
  it.effect("gets what happened as kind, ids and a link that only it can read", () =>
    Effect.gen(function* () {
      const { browser, device_id, on, person, received } = yield* withBrowser
      const about = yield* notify(on, person.project_id, "task.needs_decision")
      yield* drain(on.worker)
      const [{ body, claims, headers, public_key }] = received() as [ReturnType<typeof received>[number]]
      const plain = yield* Effect.promise(() => decrypt(body, browser))
      const row = yield* last(device_id)
      assert.deepStrictEqual(JSON.parse(plain.toString()), {
        n: row.delivery_id,
        k: "task.needs_decision",
        r: about,
        url: `http://127.0.0.1:8787/console/${person.project_id}/tasks/${about}`
      })
      assert.deepInclude(row, { state: "delivered", attempts: 1, last_status: 200 })
      assert.deepInclude(headers, {
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        ttl: "86400",
        urgency: "high"
      })
      assert.match(String(headers["topic"]), /^[A-Za-z0-9_-]{32}$/)
      // What is said later about the same replaces it.
      yield* notify(on, person.project_id, "task.completed", about)
      yield* notify(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      const topics = received().map(({ headers }) => headers["topic"])
      assert.deepStrictEqual([topics.length, new Set(topics).size], [3, 2])
      assert.deepInclude(claims, { aud: on.pushService.origin, sub: "mailto:ops@example.com" })
      assert.strictEqual(public_key, (yield* Context.get(on.services, WebPushKeys).current).public_key)
      assert.isFalse(body.toString("latin1").includes(person.project_id))
    })
  )

  it.effect("is not woken by what is of low priority", () =>
    Effect.gen(function* () {
      const { on, person, received } = yield* withBrowser
      yield* notify(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      assert.strictEqual(received()[0]!.headers["urgency"], "low")
    })
  )

  it.effect("that subscribed with an earlier key gets messages signed with it", () =>
    Effect.gen(function* () {
      const { on, person, received } = yield* withBrowser
      const former = yield* Context.get(on.services, WebPushKeys).current
      yield* Context.get(on.services, PushAdmin).rotateWebPushKey(randomUUID())
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      assert.strictEqual(received()[0]!.public_key, former.public_key)
    })
  )

  const outcomes = [
    [404, { state: "suppressed", last_status: 404, last_reason: "subscription_gone" }, "inactive"],
    [410, { state: "suppressed", last_status: 410, last_reason: "subscription_gone" }, "inactive"],
    [413, { state: "dead", last_status: 413, last_reason: "too_large" }, "active"],
    [400, { state: "dead", last_status: 400, last_reason: "refused" }, "active"],
    [403, { state: "pending", attempts: 1, last_reason: "signature_refused" }, "active"],
    [429, { state: "pending", attempts: 1, last_reason: "too_many_requests" }, "active"],
    [503, { state: "pending", attempts: 1, last_status: 503 }, "active"],
    ["hang", { state: "pending", attempts: 1, last_status: null, last_reason: "unreachable" }, "active"],
    ["endless", { state: "delivered", last_status: 200 }, "active"],
    [[302, { location: "https://169.254.169.254/" }], { state: "dead", last_status: 302 }, "active"]
  ] as const
  for (const [answer, row, state] of outcomes) {
    it.effect(`whose push service answers ${JSON.stringify(answer)}: ${JSON.stringify(row)}`, () =>
      Effect.gen(function* () {
        const { answers, device_id, on, path, person, phone, received } = yield* withBrowser
        answers.set(path, answer as never)
        yield* notify(on, person.project_id)
        yield* drain(on.worker)
        assert.deepInclude(yield* last(device_id), row)
        assert.strictEqual(received().length, 1)
        assert.strictEqual((yield* phone.get(device_id)).body.state, state)
      })
    )
  }

  it.effect("waits as long as Retry-After says, under the same id", () =>
    Effect.gen(function* () {
      const { answers, browser, device_id, on, path, person, received } = yield* withBrowser
      answers.set(path, [429, { "retry-after": "600" }])
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      answers.delete(path)
      yield* TestClock.adjust("9 minutes")
      yield* drain(on.worker)
      assert.strictEqual(received().length, 1)
      yield* TestClock.adjust("3 minutes")
      yield* drain(on.worker)
      assert.deepInclude(yield* last(device_id), { state: "delivered", attempts: 2 })
      const ids = yield* Effect.promise(() =>
        Promise.all(received().map(async ({ body }) => JSON.parse((await decrypt(body, browser)).toString()).n))
      )
      assert.strictEqual(new Set(ids).size, 1)
    })
  )

  it.effect("is rung again after a change of the keys for push tokens, and not while its key is missing", () =>
    Effect.gen(function* () {
      const { device_id, on, person, received } = yield* withBrowser
      const secret = (name: string) => ({
        SERVICE_BRIDGE_TOKEN_SECRET: `${name} token secret of the tests, long enough`
      })
      const other = yield* on.replica(secret("another"))
      yield* notify(other, person.project_id)
      yield* drain(other.worker)
      assert.deepInclude(yield* last(device_id), { state: "pending", last_reason: "token_unreadable" })
      const both = yield* on.replica({
        ...secret("another"),
        SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: "token-secret-of-the-tests-0123456789abcdef"
      })
      assert.strictEqual((yield* Context.get(both.services, PushAdmin).rekey).unreadable, 0)
      // The token can be opened without the old secret now, but nothing can be signed.
      yield* TestClock.adjust("1 hour")
      yield* drain(other.worker)
      assert.deepInclude(yield* last(device_id), { state: "pending", last_reason: "web_push_key_unknown" })
      const usable = (from: typeof both) =>
        Effect.map(Context.get(from.services, PushAdmin).status, ({ web_push_keys }) =>
          web_push_keys.filter(({ subscriptions }) => subscriptions > 0).every((key) => key.usable)
        )
      assert.deepStrictEqual([yield* usable(other), yield* usable(both)], [false, true])
      assert.strictEqual(received().length, 0)
      yield* TestClock.adjust("2 hours")
      yield* drain(both.worker)
      assert.strictEqual(received().length, 1)
    })
  )

  it.effect("at a host that the operator has taken away is not asked", () =>
    Effect.gen(function* () {
      const { device_id, on, person, received } = yield* withBrowser
      const without = yield* on.replica({ SERVICE_WEBPUSH_HOSTS: "" })
      yield* notify(without, person.project_id)
      yield* drain(without.worker)
      assert.deepInclude(yield* last(device_id), { state: "pending", last_reason: "endpoint_not_allowed" })
      assert.strictEqual(received().length, 0)
    })
  )

  it.effect("sends nothing to a known push service whose name leads into a private network", () =>
    Effect.gen(function* () {
      const on = yield* Web
      const person = yield* makePerson(on)
      const { push } = yield* Effect.promise(() =>
        makeSubscription(`https://fcm.googleapis.com:${new URL(on.pushService.origin).port}/x`)
      )
      const tricked = yield* instance({}).pipe(
        Effect.provideService(PostNetwork, { ...on.pushService.network, resolve: async () => ["127.0.0.1"] })
      )
      const worker = yield* workerOf(tricked, yield* apnsOf(on.simulator))
      const { body } = yield* makePhone(on, person).register({}, { body: { platform: "web", push } })
      yield* notify(on, person.project_id)
      let connections = 0
      on.pushService.server.on("connection", () => connections++)
      yield* drain(worker)
      assert.strictEqual((yield* last(body.device_id)).last_reason, "unreachable")
      assert.strictEqual(connections, 0)
    })
  )
})

layer(Web.layer)("a test that a person asks for", (it) => {
  const wink = Effect.promise(() => setTimeout(40))
  /** Answers the request while the worker and the clock run; the clock more than twice as fast, whatever else the machine does. */
  const ring = ({ device_id, on, phone }: Effect.Success<typeof withBrowser>) =>
    Effect.raceFirst(
      phone.ring(device_id),
      Effect.forever(Effect.all([drain(on.worker), wink, TestClock.adjust("100 millis")]))
    )

  const told = [
    [201, { outcome: "accepted", status: 200, reason: null }],
    [410, { outcome: "gone", status: 410, reason: "subscription_gone" }],
    [400, { outcome: "refused", status: 400, reason: "refused" }],
    [503, { outcome: "retrying", status: 503, reason: "refused" }],
    ["hang", { outcome: "retrying", status: null, reason: "unreachable" }]
  ] as const
  for (const [answer, tested] of told) {
    it.effect(`says what happened when the push service answers ${answer}`, () =>
      Effect.gen(function* () {
        const made = yield* withBrowser
        made.answers.set(made.path, answer)
        const began = yield* Clock.currentTimeMillis
        const { body, status, text } = yield* ring(made)
        assert.deepStrictEqual([status, body], [200, { device_id: made.device_id, ...tested }], text)
        assert.isBelow((yield* Clock.currentTimeMillis) - began, 8000)
      })
    )
  }

  it.effect("reaches only this device, in its quiet hours, and leads to the page of phones", () =>
    Effect.gen(function* () {
      const made = yield* withBrowser
      const { browser, device_id, on, person, phone, received } = made
      const other = yield* Effect.promise(() => makeSubscription(`${on.pushService.origin}/another`))
      yield* phone.register({}, { body: { platform: "web", push: other.push } })
      yield* SqlClient.SqlClient.use((sql) => sql`delete from push_outbox`)
      const paused_until = new Date(86_400_000).toISOString()
      yield* phone.prefer(device_id, { ...everything, paused_until })
      assert.strictEqual((yield* ring(made)).body.outcome, "accepted")
      const plain = yield* Effect.promise(() => decrypt(received()[0]!.body, browser))
      const { k, url } = JSON.parse(plain.toString())
      assert.deepStrictEqual([k, url], ["device.test", `http://127.0.0.1:8787/console/${person.project_id}/phones`])
      assert.lengthOf(
        on.pushService.received.filter(({ path }) => path === "/another"),
        0
      )
    })
  )

  it.effect("is said to wait when no worker runs", () =>
    Effect.gen(function* () {
      const { device_id, phone } = yield* withBrowser
      const answer = yield* Effect.raceFirst(
        phone.ring(device_id),
        Effect.forever(Effect.andThen(deliveriesOf(device_id), TestClock.adjust("100 millis")))
      )
      assert.deepStrictEqual(answer.body, { device_id, outcome: "waiting", status: null, reason: null })
    })
  )

  it.effect("of an ended device, or somebody else's, is refused", () =>
    Effect.gen(function* () {
      const { device_id, on, phone } = yield* withBrowser
      const stranger = makePhone(on, yield* makePerson(on))
      assert.strictEqual((yield* stranger.ring(device_id)).code, "device_not_found")
      yield* phone.revoke(device_id)
      assert.strictEqual((yield* phone.ring(device_id)).code, "device_revoked")
    })
  )
})
