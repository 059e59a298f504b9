/** The connection to APNs: a lost session is replaced, and nothing is sent on a session that was closed. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import type { AppPush, PushProvider } from "../../src/push/channels/Provider.ts"
import { relay } from "../support/network/Relay.ts"
import { apnsSimulator, type Fault } from "../support/phones/ApnsSimulator.ts"
import { apnsOf } from "../support/service/Delivery.ts"

const push = (): AppPush => ({
  delivery_id: randomUUID(),
  environment: "production",
  topic: "com.example.app",
  token: Redacted.make(randomBytes(32).toString("hex")),
  payload: `{"aps":{}}`,
  collapse_id: "c",
  immediate: true,
  expires_at: new Date(86_400_000)
})

const sendMany = ({ send }: typeof PushProvider.Service, count: number) =>
  Effect.map(
    Effect.forEach(Array.from({ length: count }), () => send(push()), { concurrency: 50 }),
    (responses) => responses.map(({ reason, status }) => reason ?? status)
  )

const all = (count: number) => Array.from({ length: count }, () => 200)

it.live(
  "5,000 notifications over sessions that end every fifty requests are all delivered",
  () =>
    Effect.gen(function* () {
      const simulator = yield* apnsSimulator()
      simulator.goawayAfter = 50
      const apns = yield* apnsOf(simulator, { deadline: Duration.seconds(10) })
      assert.deepStrictEqual(yield* sendMany(apns, 5000), all(5000))
      assert.strictEqual(new Set(simulator.received.map(({ delivery_id }) => delivery_id)).size, 5000)
      assert.isAtMost(simulator.sessions, 101)
    }),
  60_000
)

it.live("after a GOAWAY streams in flight are answered, and the next request opens a new session", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator)
    yield* sendMany(apns, 10)
    simulator.next.push("goaway")
    assert.deepStrictEqual(yield* sendMany(apns, 20), all(20))
    assert.deepStrictEqual(yield* sendMany(apns, 5), all(5))
    assert.isAtMost(simulator.sessions, 3)
  })
)

it.live("a session that was torn down is replaced", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator)
    simulator.next.push("kill")
    assert.deepStrictEqual(yield* sendMany(apns, 1), ["connection_lost"])
    assert.deepStrictEqual(yield* sendMany(apns, 3), all(3))
  })
)

it.live("an idle session is used again if it answers a ping, and is replaced otherwise", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const line = yield* relay({ host: "127.0.0.1", port: Number(new URL(simulator.origin).port) })
    const through = { ...simulator, origin: `https://localhost:${line.port}` }
    const apns = yield* apnsOf(through, { idle: Duration.zero })
    assert.deepStrictEqual([...(yield* sendMany(apns, 1)), ...(yield* sendMany(apns, 1))], all(2))
    assert.strictEqual(simulator.sessions, 1)
    yield* Effect.andThen(line.blackhole, line.heal)
    assert.deepStrictEqual(yield* sendMany(apns, 1), all(1))
    assert.strictEqual(simulator.sessions, 2)
  })
)

it.live("several requests that find an idle session lost share the next one", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const line = yield* relay({ host: "127.0.0.1", port: Number(new URL(simulator.origin).port) })
    const through = { ...simulator, origin: `https://localhost:${line.port}` }
    const apns = yield* apnsOf(through, { idle: Duration.zero })
    yield* sendMany(apns, 1)
    yield* Effect.andThen(line.blackhole, line.heal)
    assert.deepStrictEqual(yield* sendMany(apns, 8), all(8))
    assert.strictEqual(simulator.sessions, 2)
  })
)

it.live("a stream that APNs refuses unprocessed is sent again, twice at most", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator)
    simulator.next.push("refuse", "refuse")
    assert.deepStrictEqual(yield* sendMany(apns, 1), all(1))
    simulator.next.push("refuse", "refuse", "refuse")
    assert.deepStrictEqual(yield* sendMany(apns, 1), ["refused_stream"])
  })
)

it.live("when an app went is read in milliseconds or in seconds, and no more than a million seconds are waited", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator)
    const answerTo = Effect.fnUntraced(function* (fault: Fault) {
      simulator.next.push(fault)
      return (yield* apns.send(push())).outcome
    })
    const since = new Date("2026-11-21T12:00:00Z")
    for (const timestamp of [since.getTime(), since.getTime() / 1000]) {
      const gone = { status: 410, reason: "Unregistered", timestamp }
      assert.deepStrictEqual(yield* answerTo(gone), { _tag: "Gone", since })
    }
    assert.deepStrictEqual(yield* answerTo({ status: 410, reason: "Unregistered" }), { _tag: "Gone", since: undefined })
    for (const [retryAfter, seconds] of [
      [999_999, 999_999],
      [1_000_000, 900]
    ] as const) {
      const outcome = yield* answerTo({ status: 503, reason: "ServiceUnavailable", retryAfter })
      assert.strictEqual("backoff" in outcome && Duration.toSeconds(outcome.backoff.base), seconds)
    }
  })
)

it.live("the first request of a session goes alone, because APNs allows no other stream before it", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator)
    assert.deepStrictEqual(yield* sendMany(apns, 50), all(50))
    assert.strictEqual(simulator.sessions, 1)
  })
)

it.live("a request waits for a stream that APNs allows, and its own time begins only then", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator({ streams: 1 })
    const apns = yield* apnsOf(simulator)
    yield* sendMany(apns, 1)
    simulator.next.push("hang")
    assert.deepStrictEqual(yield* sendMany(apns, 2), ["timeout", 200])
  })
)

it.live("no more requests are under way than the service allows, of more that APNs would", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const apns = yield* apnsOf(simulator, { concurrency: 3, deadline: Duration.minutes(1) })
    yield* sendMany(apns, 1)
    simulator.next.push("hang", "hang", "hang", "hang")
    yield* Effect.forkScoped(sendMany(apns, 4))
    const requests = Effect.delay(
      Effect.sync(() => simulator.requests),
      "5 millis"
    )
    yield* Effect.repeat(requests, { until: (count) => count > 3 })
    // A fourth one would have come by now.
    yield* Effect.sleep("30 millis")
    assert.strictEqual(simulator.requests, 1 + 3)
  })
)

it.live("a refused connection is reported as unreachable, not as a timeout", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const unreachable = yield* apnsOf({ ...simulator, origin: "https://localhost:1" })
    assert.deepStrictEqual(yield* sendMany(unreachable, 2), ["unreachable", "unreachable"])
  })
)

it.live("a connection that was not established in time is given up, and the next request opens another one", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const line = yield* relay({ host: "127.0.0.1", port: Number(new URL(simulator.origin).port) })
    const apns = yield* apnsOf({ ...simulator, origin: `https://localhost:${line.port}` })
    yield* line.blackhole
    assert.deepStrictEqual(yield* sendMany(apns, 1), ["unreachable"])
    yield* line.heal
    assert.deepStrictEqual(yield* sendMany(apns, 1), all(1))
  })
)

it.live("a server whose certificate the configured authority did not sign gets no request", () =>
  Effect.gen(function* () {
    const simulator = yield* apnsSimulator()
    const other = yield* apnsSimulator()
    const apns = yield* apnsOf({ ...simulator, ca: other.ca })
    assert.deepStrictEqual(yield* sendMany(apns, 1), ["unreachable"])
    assert.strictEqual(simulator.requests, 0)
  })
)

it.live("a provider token is renewed after 45 minutes, and when the clock was set back", () =>
  Effect.gen(function* () {
    let at = new Date("2026-11-21T12:00:00Z")
    const simulator = yield* apnsSimulator({ now: () => at.getTime() })
    const apns = yield* apnsOf(simulator, { now: Effect.sync(() => at) })
    for (const minute of [0, 10, 44, 46, 60, 89, 92, 200, 100]) {
      at = new Date(Date.UTC(2026, 10, 21, 12, minute))
      assert.deepStrictEqual(yield* sendMany(apns, 2), all(2), `minute ${minute}`)
    }
  })
)

it.live("a provider token that APNs finds too old is renewed at once, unless it is younger than 20 minutes", () =>
  Effect.gen(function* () {
    let at = new Date("2026-11-21T12:00:00Z")
    const simulator = yield* apnsSimulator({ now: () => at.getTime() })
    const apns = yield* apnsOf(simulator, { now: Effect.sync(() => at) })
    yield* sendMany(apns, 1)
    simulator.next.push({ status: 403, reason: "ExpiredProviderToken" })
    assert.deepStrictEqual(yield* sendMany(apns, 1), ["ExpiredProviderToken"])
    at = new Date("2026-11-21T12:25:00Z")
    simulator.next.push({ status: 403, reason: "ExpiredProviderToken" })
    assert.deepStrictEqual(yield* sendMany(apns, 1), [200])
  })
)
