/** Push tokens at rest (spec 2.9): sealed for their row, under keys that are replaced while the service runs. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import { PushAdmin } from "../../src/push/admin/PushAdmin.ts"
import { apnsOf, deliveriesOf, Delivery, drain, notify, workerOf } from "../support/service/Delivery.ts"
import { makePhone, makeRegisteredPhone } from "../support/phones/Phone.ts"
import { allRows } from "../support/database/Rows.ts"
import { instance } from "../support/service/Service.ts"
import { makePerson } from "../support/people/SignIn.ts"

const key = (name: string) => `${name}:${randomBytes(32).toString("base64")}`

const replica = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>>) {
  const { simulator } = yield* Delivery
  const on = yield* instance({ SERVICE_APNS_TOPICS: simulator.topic, ...settings })
  return { ...on, worker: yield* workerOf(on, yield* apnsOf(simulator)) }
})

const receivedBy = (token: string) =>
  Effect.map(Delivery, ({ simulator }) => simulator.received.filter((received) => received.token === token).length)

/** Deletes devices and pauses of earlier tests. */
const fresh = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from mobile_device`
  yield* sql`delete from push_provider_state`
})

layer(Delivery.layer)("a push token", (it) => {
  it.effect("is nowhere in the database, neither as it is nor in another encoding", () =>
    Effect.gen(function* () {
      yield* fresh
      const on = yield* Delivery
      const person = yield* makePerson(on)
      const phone = yield* makeRegisteredPhone(on, person)
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      const bytes = Buffer.from(phone.token, "hex")
      const canaries = [phone.token, bytes.toString("base64").slice(0, 40), bytes.toString("base64url").slice(0, 40)]
      const everything = JSON.stringify(yield* allRows)
      for (const canary of canaries) assert.isFalse(everything.toLowerCase().includes(canary.toLowerCase()), canary)
      assert.isTrue(everything.includes(phone.device_id))
    })
  )

  it.effect("put into another row is not opened: nothing is sent, and no device ends", () =>
    Effect.gen(function* () {
      yield* fresh
      const on = yield* Delivery
      const sql = yield* SqlClient.SqlClient
      const person = yield* makePerson(on)
      const mine = yield* makeRegisteredPhone(on, person)
      const theirs = yield* makeRegisteredPhone(on, person)
      yield* sql`delete from push_outbox`
      yield* sql`
        update mobile_device a
           set token_sealed = b.token_sealed
          from mobile_device b
         where a.device_id = ${mine.device_id}::uuid
           and b.device_id = ${theirs.device_id}::uuid`
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      assert.deepStrictEqual([yield* receivedBy(mine.token), yield* receivedBy(theirs.token)], [0, 1])
      assert.deepInclude((yield* deliveriesOf(mine.device_id))[0], {
        state: "pending",
        last_reason: "token_unreadable"
      })
      assert.strictEqual((yield* mine.get(mine.device_id)).body.state, "active")
    })
  )

  it.effect("under a key that is not configured pauses delivery until the key is back", () =>
    Effect.gen(function* () {
      yield* fresh
      const [k1, k2] = [key("k1"), key("k2")]
      const before = yield* replica({ SERVICE_PUSH_TOKEN_KEYS: k1 })
      const person = yield* makePerson(before)
      const phone = yield* makeRegisteredPhone(before, person)
      yield* notify(before, person.project_id)
      const without = yield* replica({ SERVICE_PUSH_TOKEN_KEYS: k2 })
      yield* drain(without.worker)
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], {
        state: "pending",
        attempts: 0,
        last_reason: "token_key_unknown"
      })
      const restarted = yield* replica({ SERVICE_PUSH_TOKEN_KEYS: `${k2},${k1}` })
      yield* restarted.worker.start
      // The pause lasts 15 minutes; the restart ends it.
      const wink = Effect.promise(() => setTimeout(10))
      yield* Effect.all([TestClock.adjust("1 second"), wink]).pipe(
        Effect.andThen(deliveriesOf(phone.device_id)),
        Effect.repeat({ until: ([row]) => row!.state === "delivered", times: 300 })
      )
      assert.strictEqual(yield* receivedBy(phone.token), 1)
    })
  )

  it.effect("that a derived key sealed is resealed under the first key and still finds the same device", () =>
    Effect.gen(function* () {
      yield* fresh
      const on = yield* Delivery
      const person = yield* makePerson(on)
      const phone = yield* makeRegisteredPhone(on, person)
      const settings = {
        SERVICE_PUSH_TOKEN_KEYS: key("own"),
        SERVICE_PUSH_LOOKUP_KEY: "a lookup key of the tests, long enough"
      }
      yield* makeRegisteredPhone(on, yield* makePerson(on))
      const after = yield* replica(settings)
      const sql = yield* SqlClient.SqlClient
      const audited = sql`select from audit_event where action = 'push.tokens_rekeyed'`
      const before = (yield* audited).length
      const rekeyed = yield* Context.get(after.services, PushAdmin).rekey
      assert.deepStrictEqual(rekeyed, { resealed: 2, unreadable: 0, token_keys: { own: 2 } })
      assert.strictEqual((yield* audited).length - before, 1)
      const again = yield* makePhone(after, person, phone.token).register()
      assert.deepStrictEqual([again.status, again.body.device_id], [200, phone.device_id])
      yield* notify(after, person.project_id)
      yield* drain(after.worker)
      assert.strictEqual(yield* receivedBy(phone.token), 1)
    })
  )

  it.effect("whose lookup key was replaced still finds the same device, once all are resealed", () =>
    Effect.gen(function* () {
      yield* fresh
      const lookup = (name: string) => `${name} lookup key of the tests, long enough`
      const sealing = { SERVICE_PUSH_TOKEN_KEYS: key("own") }
      const before = yield* replica({ ...sealing, SERVICE_PUSH_LOOKUP_KEY: lookup("old") })
      const person = yield* makePerson(before)
      const phone = yield* makeRegisteredPhone(before, person)
      const replaced = { ...sealing, SERVICE_PUSH_LOOKUP_KEY: lookup("new") }
      const during = yield* replica({ ...replaced, SERVICE_PUSH_LOOKUP_KEY_PREVIOUS: lookup("old") })
      // Each is found under the earlier key as well, and gets the newer one when it registers.
      const other = yield* makeRegisteredPhone(before, person)
      const renewed = yield* makePhone(during, person, other.token).register()
      assert.deepStrictEqual([renewed.status, renewed.body.device_id], [200, other.device_id])
      assert.deepInclude(yield* Context.get(during.services, PushAdmin).rekey, { resealed: 1, unreadable: 0 })
      const again = yield* makePhone(yield* replica(replaced), person, phone.token).register()
      assert.deepStrictEqual([again.status, again.body.device_id], [200, phone.device_id])
    })
  )

  it.effect("is among those that are looked at, however many there are", () =>
    Effect.gen(function* () {
      yield* fresh
      const on = yield* Delivery
      const sql = yield* SqlClient.SqlClient
      yield* makeRegisteredPhone(on, yield* makePerson(on))
      // In the rows of other devices it cannot be opened.
      yield* sql`
        insert into mobile_device
        select (jsonb_populate_record(d, jsonb_build_object(
                 'device_id', gen_random_uuid(), 'token_lookup', sha256(int4send(n))))).*
          from mobile_device d
         cross join generate_series(1, 100) n`
      assert.deepInclude(yield* Context.get(on.services, PushAdmin).rekey, { unreadable: 100 })
    })
  )

  it.effect("that the derived key of a previous secret sealed is resealed, so that the secret may go", () =>
    Effect.gen(function* () {
      yield* fresh
      const secret = (name: string) => `${name} token secret of the tests, long enough`
      // A lookup key of its own stays the same: it does not tell that the token's key has changed.
      const lookup = { SERVICE_PUSH_LOOKUP_KEY: "a lookup key of the tests, long enough" }
      const before = yield* replica({ ...lookup, SERVICE_BRIDGE_TOKEN_SECRET: secret("old") })
      const person = yield* makePerson(before)
      const phone = yield* makeRegisteredPhone(before, person)
      const rotated = { ...lookup, SERVICE_BRIDGE_TOKEN_SECRET: secret("new") }
      const during = yield* replica({ ...rotated, SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: secret("old") })
      assert.deepStrictEqual(yield* Context.get(during.services, PushAdmin).rekey, {
        resealed: 1,
        unreadable: 0,
        token_keys: { derived: 1 }
      })
      const after = yield* replica(rotated)
      yield* notify(after, person.project_id)
      yield* drain(after.worker)
      assert.strictEqual(yield* receivedBy(phone.token), 1)
    })
  )

  it.effect("can be resealed while notifications are sent, and none fails", () =>
    Effect.gen(function* () {
      yield* fresh
      const on = yield* replica({ SERVICE_PUSH_TOKEN_KEYS: key("a") })
      const person = yield* makePerson(on)
      const phones = yield* Effect.forEach(Array.from({ length: 10 }), () => makeRegisteredPhone(on, person))
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from push_outbox`
      for (let i = 0; i < 20; i++) yield* notify(on, person.project_id)
      const pushAdmin = Context.get(on.services, PushAdmin)
      const [sent] = yield* Effect.all([drain(on.worker), Effect.repeat(pushAdmin.rekey, { times: 5 })], {
        concurrency: 2
      })
      assert.strictEqual(sent, 200)
      const states = yield* sql`select distinct state from push_outbox`
      assert.deepStrictEqual(states, [{ state: "delivered" }])
      assert.strictEqual(yield* receivedBy(phones[0]!.token), 20)
    })
  )
})
