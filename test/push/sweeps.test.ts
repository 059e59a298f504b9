/** The sweeps of devices and notifications (decisions.md, Retention). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { sweeps as mobileSweeps } from "../../src/people/Wing.ts"
import { Clients } from "../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { sweeps as pushSweeps } from "../../src/push/Wing.ts"
import { deliveriesOf, Delivery, drain, notify } from "../support/service/Delivery.ts"
import { makePhone, makeRegisteredPhone, storedDevice } from "../support/phones/Phone.ts"
import { makePerson } from "../support/people/SignIn.ts"

const sweep = Effect.provide(sweepOnce([...mobileSweeps, ...pushSweeps]), DatabaseClock.layerLocal)

const withPhone = Effect.gen(function* () {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  return { on, person, phone: yield* makeRegisteredPhone(on, person) }
})

const grantOf = (device_id: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly grant_id: string }>`
        select grant_id from mobile_device where device_id = ${device_id}::uuid`,
      ([row]) => row!.grant_id
    )
  )

layer(Delivery.layer)("the sweeper", (it) => {
  it.effect("ends a device whose sign-in was revoked, deletes its push token and suppresses what waits for it", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      const { phone: other } = yield* withPhone
      yield* notify(on, person.project_id)
      yield* Context.get(on.services, Grants).revoke(yield* grantOf(phone.device_id))
      yield* sweep
      assert.deepStrictEqual(yield* storedDevice(phone.device_id), {
        state: "revoked",
        state_reason: "sign_in_ended",
        secrets: 0
      })
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], {
        state: "suppressed",
        last_reason: "not_authorized"
      })
      assert.deepInclude(yield* storedDevice(other.device_id), { state: "active", secrets: 3 })
    })
  )

  it.effect("ends the devices of a client that was disabled", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      yield* Context.get(on.services, Clients).disable(person.client_id)
      yield* sweep
      assert.deepInclude(yield* storedDevice(phone.device_id), { state: "revoked", secrets: 0 })
    })
  )

  it.effect("ends a device when its sign-in expires", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      yield* TestClock.adjust(Duration.days(91))
      yield* sweep
      assert.deepInclude(yield* storedDevice(phone.device_id), { state: "revoked", secrets: 0 })
    })
  )

  it.effect("expires overdue notifications, except one in flight", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      const sql = yield* SqlClient.SqlClient
      yield* notify(on, person.project_id, "task.completed")
      yield* notify(on, person.project_id, "task.completed")
      yield* notify(on, person.project_id, "bridge.enrolled")
      yield* sql`
        update push_outbox
           set state = 'leased', lease_token = gen_random_uuid(), lease_until = expires_at + interval '30 seconds'
         where delivery_id = (select delivery_id
                                from push_outbox
                               where device_id = ${phone.device_id}::uuid
                                 and kind = 'task.completed'
                               limit 1)`
      yield* TestClock.adjust(Duration.hours(6))
      yield* sweep
      const states = (yield* deliveriesOf(phone.device_id)).map(({ kind, state }) => `${kind} ${state}`)
      assert.sameMembers(states, ["task.completed leased", "task.completed expired", "bridge.enrolled pending"])
      yield* TestClock.adjust("30 seconds")
      yield* sweep
      const later = (yield* deliveriesOf(phone.device_id)).map(({ state }) => state)
      assert.sameMembers(later, ["expired", "expired", "pending"])
    })
  )

  it.effect("deletes notifications, devices and registrations 30 days after their end", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from mobile_device`
      const person = yield* makePerson(on)
      const alive = yield* makeRegisteredPhone(on, person)
      const phone = makePhone(on, person)
      const { body } = yield* phone.register({}, { key: "mobile-register-1" })
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      yield* phone.revoke(body.device_id)
      const remaining = Effect.gen(function* () {
        const [counts] = yield* sql<Record<string, number>>`
          select (select count(*) from mobile_device)::int as devices,
                 (select count(*) from mobile_registration)::int as registrations,
                 (select count(*) from push_outbox)::int as notifications`
        return counts
      })
      const before = yield* remaining
      yield* TestClock.adjust(Duration.days(30))
      yield* sweep
      assert.deepStrictEqual(yield* remaining, before)
      yield* TestClock.adjust("1 second")
      yield* sweep
      assert.deepStrictEqual(yield* remaining, { devices: 1, registrations: 0, notifications: 0 })
      assert.deepInclude(yield* storedDevice(alive.device_id), { state: "active" })
    })
  )
})
