/** Several workers on several instances: nothing is lost or sent twice, and rows of a dead worker are claimed again. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Outbox } from "../../../src/push/outbox/Outbox.ts"
import { apnsOf, deliveriesOf, Delivery, drain, notify, workerOf } from "../../support/service/Delivery.ts"
import { makePhone, makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { rounds } from "../../support/attacks/Race.ts"
import { instance } from "../../support/service/Service.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const replica = Effect.gen(function* () {
  const { simulator } = yield* Delivery
  const on = yield* instance({ SERVICE_APNS_TOPICS: simulator.topic })
  // Long enough for a busy machine: no attempt times out.
  const provider = yield* apnsOf(simulator, { deadline: Duration.seconds(10) })
  return { ...on, worker: yield* workerOf(on, provider) }
})

const fresh = Effect.gen(function* () {
  const on = yield* Delivery
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from mobile_device`
  yield* sql`delete from push_provider_state`
  on.simulator.received.length = 0
  return { on, sql, person: yield* makePerson(on) }
})

layer(Delivery.layer, { timeout: "60 seconds" })("workers at once", (it) => {
  it.effect("deliver each notification once, to each of three phones, and none of a change that was rolled back", () =>
    Effect.gen(function* () {
      const { on, person, sql } = yield* fresh
      const phones = yield* Effect.forEach([1, 2, 3], () => makeRegisteredPhone(on, person))
      yield* sql`delete from push_outbox`
      const replicas = [yield* replica, yield* replica, yield* replica, yield* replica]
      const services = Context.get(on.services, SqlClient.SqlClient)
      const outbox = Context.get(on.services, Outbox)
      const at = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
      const change = (rolledBack: boolean) => {
        const about = randomUUID()
        const notice = { kind: "task.blocked" as const, event_id: about, project_id: person.project_id, about }
        const enqueued = outbox.enqueue(at, notice)
        return Effect.ignore(
          services.withTransaction(rolledBack ? Effect.andThen(enqueued, Effect.fail("rolled back")) : enqueued)
        )
      }
      const changes = Effect.forEach(Array.from({ length: 330 }), (_, i) => change(i % 11 === 0), { concurrency: 8 })
      const working = replicas.map(({ worker }) => Effect.repeat(drain(worker), { times: 8 }))
      yield* Effect.all([changes, ...working], { concurrency: "unbounded" })
      yield* drain(replicas[0]!.worker)
      const states = yield* sql`select state, count(*)::int as count from push_outbox group by state`
      assert.deepStrictEqual(states, [{ state: "delivered", count: 900 }])
      assert.strictEqual(on.simulator.received.length, 900)
      assert.strictEqual(new Set(on.simulator.received.map(({ delivery_id }) => delivery_id)).size, 900)
      for (const { token } of phones) {
        assert.strictEqual(on.simulator.received.filter((received) => received.token === token).length, 300)
      }
    })
  )

  it.effect("claim the rows of a dead worker once its lease has ended", () =>
    Effect.gen(function* () {
      const { on, person, sql } = yield* fresh
      const phone = yield* makeRegisteredPhone(on, person)
      yield* notify(on, person.project_id)
      yield* sql`
        update push_outbox
           set state = 'leased', attempts = 1, lease_token = gen_random_uuid(),
               lease_until = not_before + interval '30 seconds'`
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(yield* drain(on.worker), 0)
      yield* TestClock.adjust("1 second")
      yield* drain(on.worker)
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], { state: "delivered", attempts: 2 })
    })
  )

  it.effect("settle nothing under a lease that another worker has taken over", () =>
    Effect.gen(function* () {
      const { on, person, sql } = yield* fresh
      const phone = yield* makeRegisteredPhone(on, person)
      on.simulator.faults.set(phone.token, "hang")
      yield* notify(on, person.project_id)
      const { requests } = on.simulator
      const late = yield* Effect.forkChild(on.worker.round)
      yield* Effect.promise(async () => {
        while (on.simulator.requests === requests) await new Promise((resolve) => setTimeout(resolve, 5))
      })
      yield* sql`update push_outbox set lease_token = gen_random_uuid() where state = 'leased'`
      yield* Fiber.join(late)
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], { state: "leased", attempts: 1, last_reason: null })
      on.simulator.faults.clear()
    })
  )

  it.effect("do not retry a notification once a newer one about the same subject exists", () =>
    Effect.gen(function* () {
      const { on, person } = yield* fresh
      const phone = yield* makeRegisteredPhone(on, person)
      const { requests } = on.simulator
      on.simulator.next.push("hang")
      const about = yield* notify(on, person.project_id, "task.blocked")
      const late = yield* Effect.forkChild(on.worker.round)
      yield* Effect.promise(async () => {
        while (on.simulator.requests === requests) await new Promise((resolve) => setTimeout(resolve, 5))
      })
      yield* TestClock.adjust("1 second")
      yield* notify(on, person.project_id, "task.needs_decision", about)
      yield* on.worker.round
      yield* Fiber.join(late)
      yield* TestClock.adjust("1 minute")
      yield* drain(on.worker)
      assert.deepStrictEqual(
        (yield* deliveriesOf(phone.device_id)).map(({ kind, state }) => [kind, state]),
        [
          ["task.blocked", "superseded"],
          ["task.needs_decision", "delivered"]
        ]
      )
    })
  )

  it.effect("and a registration that renews the token while the provider answers 410: the device stays active", () =>
    Effect.gen(function* () {
      const { on, person } = yield* fresh
      for (let round = 0; round < rounds; round++) {
        const phone = yield* makeRegisteredPhone(on, person)
        yield* TestClock.adjust("1 second")
        const gone = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
        on.simulator.faults.set(phone.token, {
          status: 410,
          reason: "Unregistered",
          // In seconds, because the test clock starts in 1970: such small milliseconds are read as seconds.
          timestamp: (gone.getTime() - 500) / 1000
        })
        yield* notify(on, person.project_id)
        const [renewed] = yield* Effect.all([makePhone(on, person, phone.token).register(), on.worker.round], {
          concurrency: 2
        })
        // If the renewal came first, its token is younger than the 410. If not, the registration made a new device.
        const device = yield* phone.get(renewed.body.device_id)
        assert.strictEqual(device.body.state, "active", device.text)
        on.simulator.faults.clear()
        yield* phone.revoke(renewed.body.device_id)
      }
    })
  )

  it.effect("try a notification again whose token the provider did not know, and which was replaced meanwhile", () =>
    Effect.gen(function* () {
      const { on, person } = yield* fresh
      const phone = yield* makeRegisteredPhone(on, person)
      yield* notify(on, person.project_id)
      const sql = yield* SqlClient.SqlClient
      const send = () =>
        Effect.as(
          Effect.orDie(sql`
            update mobile_device
               set token_updated_at = token_updated_at + interval '1 second'
             where device_id = ${phone.device_id}::uuid`),
          { status: 400, reason: "BadDeviceToken", outcome: { _tag: "BadToken", ends: true } } as const
        )
      const worker = yield* workerOf(on, { name: "apns", send })
      yield* worker.round
      assert.deepInclude((yield* deliveriesOf(phone.device_id)).at(-1), { state: "pending", attempts: 1 })
    })
  )

  it.effect("go on after a defect", () =>
    Effect.gen(function* () {
      const { on, person } = yield* fresh
      const phone = yield* makeRegisteredPhone(on, person)
      let sent = 0
      const accepted = { status: 200, reason: null, outcome: { _tag: "Delivered" } } as const
      const send = () => (sent++ === 0 ? Effect.die(new Error("A planted defect")) : Effect.succeed(accepted))
      const worker = yield* workerOf(on, { name: "apns", send })
      yield* worker.start
      yield* notify(on, person.project_id)
      yield* Effect.repeat(deliveriesOf(phone.device_id), { until: () => sent > 0, times: 2000 })
      yield* notify(on, person.project_id)
      const rows = yield* Effect.repeat(deliveriesOf(phone.device_id), {
        until: (all) => all.some(({ state }) => state === "delivered"),
        times: 2000
      })
      assert.sameMembers(
        rows.map(({ state }) => state),
        ["leased", "delivered"]
      )
    }).pipe(Effect.scoped)
  )
})
