/** The deadline of a request (decisions.md, Database outages). */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { inTime } from "../../../src/platform/database/Deadline.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { waitedForBy } from "../../support/database/Locks.ts"
import { send } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"

it.effect("an operation that cannot be interrupted is late all the same, a second after it should have ended", () =>
  Effect.gen(function* () {
    const endless = inTime(Effect.fail("late"))(Effect.uninterruptible(Effect.never))
    const waiting = yield* Effect.forkChild(Effect.flip(endless))
    yield* TestClock.adjust("5 seconds")
    const passing = Effect.andThen(TestClock.withLive(Effect.sleep("50 millis")), TestClock.adjust("1 second"))
    yield* Effect.repeat(passing, { until: () => waiting.pollUnsafe() !== undefined, times: 40 })
    assert.isDefined(waiting.pollUnsafe())
    assert.strictEqual(yield* Fiber.join(waiting), "late")
  })
)

layer(Service.layer)("a request that waits for the database longer than five seconds", (it) => {
  it.effect("gets 503 with Retry-After, and changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const bridge = yield* Bridge.make(service)
      const bearer = yield* bridge.enroll(service)
      const prepare = send(`${service.url}/bridge/v1/tokens/rotate/prepare`, { bearer, key: "late" })
      const self = send(`${service.url}/bridge/v1/tokens/self`, { method: "GET", bearer })
      // After two seconds of real time the lock timeout would give the same answer.
      const started = performance.now()
      const late = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`lock table bridge_identity in access exclusive mode`
          const waiting = yield* Effect.forkChild(Effect.all([prepare, self], { concurrency: 2 }))
          yield* waitedForBy(2)
          yield* TestClock.adjust("5 seconds")
          return yield* Fiber.join(waiting)
        })
      )
      assert.isBelow(performance.now() - started, 1900)
      for (const { code, headers, status, text } of late) {
        assert.strictEqual(status, 503, text)
        assert.strictEqual(code, "bridge_persistence_error")
        assert.strictEqual(headers.get("retry-after"), "1")
      }
      const again = yield* prepare
      assert.strictEqual(again.status, 201, again.text)
      assert.strictEqual(again.headers.get("idempotency-replayed"), null)
    })
  )
})
