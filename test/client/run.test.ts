/** The loop of `bridge run`: when it rotates, and what it survives. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import type { Client } from "../../src/client/bridge/Client.ts"
import * as Run from "../../src/client/bridge/run.ts"
import type { Enrolled } from "../../src/client/bridge/State.ts"
import { makeProject } from "../support/bridges/Bridge.ts"
import { type Fate, newcomer, outside, process, tokensOf } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"

const hours = Duration.hours
/** A token of a day is not replaced before. */
const quiet = Duration.toMillis(hours(14))

const skewed = (clock: Clock.Clock, by: () => number): Clock.Clock => ({
  ...clock,
  sleep: (duration) => clock.sleep(duration),
  currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + by(),
  currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + by())
})

describe("a running Bridge", () => {
  it.effect("asks the service every hour, and within 15 seconds of a jump of its clock by more than two", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const day = 86_400
      let asked = 0
      const self = () =>
        Effect.sync(() => {
          asked++
          const now = clock.currentTimeMillisUnsafe()
          return { at: new Date(now), body: { token_id: "t", expires_at: new Date(now + 1000 * day) } }
        })
      const token = { access_token: Redacted.make("sbt_x"), lifetime_seconds: day }
      const loop = Run.make({ self } as unknown as Client["Service"], {
        recover: Effect.succeed({ base_url: "https://bridge.example", token } as Enrolled),
        rotate: Effect.die("not due"),
        rotateKey: Effect.die("not asked for")
      })
      let by = 0
      yield* Effect.forkChild(
        Effect.provideService(
          loop,
          Clock.Clock,
          skewed(clock, () => by)
        )
      )
      for (const [jump, seconds, times] of [
        [0, 3599, 1],
        [0, 1, 2],
        [2000, 15, 2],
        [2001, 15, 3],
        [0, 15, 4]
      ] as const) {
        by = jump
        yield* TestClock.adjust(Duration.seconds(seconds))
        assert.strictEqual(asked, times)
      }
    })
  )
})

layer(Service.layer)("a running Bridge", (it) => {
  const enrolled = Effect.gen(function* () {
    const service = yield* Service
    const bridge = yield* newcomer(service, yield* makeProject(service))
    yield* process(bridge.path, bridge.enroll)
    return { service, ...bridge }
  })

  /** Runs the Bridge while the test clock advances, until it has rotated; returns how long that took. */
  const untilRotated = Effect.fnUntraced(function* (
    path: string,
    fate: Fate = {},
    clock?: Clock.Clock,
    step?: Duration.Input
  ) {
    const service = yield* Clock.Clock
    const start = service.currentTimeMillisUnsafe()
    const rotated = yield* Deferred.make<Duration.Duration>()
    const onWrite: Fate["onWrite"] = ({ rotation }) =>
      rotation?.state === "confirmed"
        ? Deferred.succeed(rotated, Duration.millis(service.currentTimeMillisUnsafe() - start))
        : Effect.void
    const running = process(path, (bridge) => bridge.run, { ...fate, onWrite })
    const fiber = yield* Effect.forkChild(
      clock === undefined ? running : Effect.provideService(running, Clock.Clock, clock)
    )
    const next = () => step ?? (service.currentTimeMillisUnsafe() - start < quiet ? "10 minutes" : "1 minute")
    // The clock stands still while a request is under way: the service has deadlines too.
    yield* Effect.suspend(() => (outside.busy > 0 ? Effect.void : TestClock.adjust(next()))).pipe(
      Effect.andThen(TestClock.withLive(Effect.sleep("1 millis"))),
      Effect.repeat({ until: () => Deferred.isDoneUnsafe(rotated) || fiber.pollUnsafe() !== undefined })
    )
    return yield* Effect.ensuring(Deferred.await(rotated), Fiber.interrupt(fiber))
  })

  it.effect("rotates at 60 to 80 % of the token's life", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      const after = yield* untilRotated(path)
      assert.isTrue(Duration.between(after, { minimum: hours(14.4), maximum: hours(20) }), Duration.format(after))
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
    })
  )

  it.effect("replaces its key within the hour if the operator asks for it", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      const { bridge_id, project_id } = order.identity
      const bridges = Context.get(service.services, Bridges)
      const fiber = yield* Effect.forkChild(process(path, (bridge) => bridge.run))
      const advance = Effect.suspend(() => (outside.busy > 0 ? Effect.void : TestClock.adjust("1 minute"))).pipe(
        Effect.andThen(TestClock.withLive(Effect.sleep("1 millis")))
      )
      yield* Effect.repeat(advance, { times: 20 })
      const before = (yield* bridges.show(project_id, bridge_id)).public_key_fingerprint
      const { required_since } = yield* bridges.requireKeyRotation(project_id, bridge_id)
      const clock = yield* Clock.Clock
      yield* Effect.repeat(advance, {
        until: () => clock.currentTimeMillisUnsafe() - required_since.getTime() > 62 * 60_000
      })
      const replaced = Effect.map(bridges.show(project_id, bridge_id), (shown) =>
        shown.public_key_fingerprint !== before ? shown : undefined
      )
      const shown = yield* TestClock.withLive(
        Effect.repeat(Effect.andThen(Effect.sleep("10 millis"), replaced), { until: (found) => found !== undefined })
      )
      assert.isAtMost(shown!.key_since!.getTime() - required_since.getTime(), 61 * 60_000)
      assert.isNull(shown!.key_rotation_required_since)
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("does so even if its clock is hours wrong", () =>
    Effect.gen(function* () {
      for (const by of [-9, 9]) {
        const { path } = yield* enrolled
        const clock = skewed(yield* Clock.Clock, () => Duration.toMillis(hours(by)))
        const after = yield* untilRotated(path, {}, clock)
        assert.isTrue(Duration.between(after, { minimum: hours(14.4), maximum: hours(20) }), Duration.format(after))
      }
    })
  )

  it.effect("resumes a rotation under way when it starts", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      yield* process(path, (bridge) => bridge.rotate, { killAt: 6 })
      // Between two requests the clock goes on, and a rotation has to be confirmed within five minutes.
      const after = yield* untilRotated(path, {}, undefined, "1 second")
      assert.isBelow(Duration.toHours(after), 1)
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
    })
  )

  it.effect("continues when answers are lost", () =>
    Effect.gen(function* () {
      for (const loseAt of [1, 2, 3]) {
        const { order, path, service } = yield* enrolled
        yield* untilRotated(path, { loseAt })
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
      }
    })
  )
})
