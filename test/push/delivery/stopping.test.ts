/** SIGTERM: a server releases what it has claimed but not sent, so that other replicas can claim it at once. */
import { assert, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { apnsSimulator, settingsFor } from "../../support/phones/ApnsSimulator.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { serviceProcess } from "../../support/service/processes/Process.ts"
import { Service } from "../../support/service/Service.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bridge-service-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

layer(Service.layer, { timeout: "30 seconds", excludeTestServices: true })("a server that stops", (it) => {
  // The server gives deliveries in flight five seconds, so this test takes longer than that.
  it.effect("waits five seconds for deliveries in flight, and then releases them", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const simulator = yield* apnsSimulator()
      const server = yield* serviceProcess(settingsFor(simulator, yield* folder))
      const phone = yield* makeRegisteredPhone(service, yield* makePerson(service), {
        push: { topic: simulator.topic }
      })
      simulator.faults.set(phone.token, "hang")
      yield* sql`
        insert into push_outbox (
          delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at,
          created_at)
        select gen_random_uuid(), gen_random_uuid(), device_id, project_id, 'task.blocked', 2, 'stopping ' || n,
               'pending', clock_timestamp(), clock_timestamp() + interval '1 day', clock_timestamp()
          from mobile_device
         cross join generate_series(1, 3) n
         where device_id = ${phone.device_id}::uuid`
      const states = sql`select state, lease_token, lease_until from push_outbox`
      yield* Effect.repeat(states, {
        schedule: Schedule.spaced("20 millis"),
        until: (rows) => rows.every(({ state }) => state === "leased")
      })
      server.signal("SIGTERM")
      assert.strictEqual(yield* server.exit, 0)
      assert.deepStrictEqual(
        yield* states,
        [1, 2, 3].map(() => ({ state: "pending", lease_token: null, lease_until: null }))
      )
    })
  )
})
