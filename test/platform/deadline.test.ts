/** The deadline of a request (decisions.md, Database outages). */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Bridge } from "../support/bridges/Bridge.ts"
import { send } from "../support/network/Http.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("a request that waits for the database longer than five seconds", (it) => {
  it.effect("gets 503 with Retry-After, and changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const bridge = yield* Bridge.make(service)
      const bearer = yield* bridge.enroll(service)
      const prepare = send(`${service.url}/bridge/v1/tokens/rotate/prepare`, { bearer, key: "late" })
      // After two seconds of real time the lock timeout would give the same answer.
      const started = performance.now()
      const late = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select 1 from bridge_identity where bridge_id = ${bridge.bridge_id} for update`
          const waiting = yield* Effect.forkChild(prepare)
          yield* sql`select 1 from pg_locks where not granted`.pipe(
            Effect.repeat({ until: (locks) => locks.length > 0 })
          )
          yield* TestClock.adjust("5 seconds")
          return yield* Fiber.join(waiting)
        })
      )
      assert.isBelow(performance.now() - started, 1900)
      assert.strictEqual(late.status, 503, late.text)
      assert.strictEqual(late.code, "bridge_persistence_error")
      assert.strictEqual(late.headers.get("retry-after"), "1")
      const again = yield* prepare
      assert.strictEqual(again.status, 201, again.text)
      assert.strictEqual(again.headers.get("idempotency-replayed"), null)
    })
  )
})
