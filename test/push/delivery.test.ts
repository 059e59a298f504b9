/** Delivery: from the change to the phone (spec 1.4, 6.3; contract section 7). */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Delivery, drain, happens, rowsOf } from "../support/service/Delivery.ts"
import { everything, makeRegisteredPhone } from "../support/phones/Phone.ts"
import { makePerson } from "../support/agents/SignIn.ts"

const withPhone = Effect.fnUntraced(function* (given: Parameters<typeof makeRegisteredPhone>[2] = {}) {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  const phone = yield* makeRegisteredPhone(on, person, given)
  const heard = () => on.simulator.received.filter(({ token }) => token === phone.token)
  return { on, person, phone, heard }
})

layer(Delivery.layer)("a notification", (it) => {
  it.effect("reaches the phone once", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      yield* happens(on, person.project_id)
      yield* drain(on.worker)
      yield* drain(on.worker)
      assert.strictEqual(heard().length, 1)
      const [row] = yield* rowsOf(phone.device_id)
      assert.deepInclude(row, { state: "delivered", attempts: 1, last_status: 200 })
      assert.strictEqual(heard()[0]!.delivery_id, row!.delivery_id)
    })
  )

  it.effect("names a sentence of the app and opaque ids, and nothing else", () =>
    Effect.gen(function* () {
      const { heard, on, person } = yield* withPhone()
      const about = yield* happens(on, person.project_id, "task.needs_decision")
      yield* drain(on.worker)
      const [{ bytes, delivery_id, payload, priority }] = heard() as [(typeof on.simulator.received)[number]]
      const { aps, ...rest } = JSON.parse(payload)
      assert.deepStrictEqual(rest, { v: 1, n: delivery_id, k: "task.needs_decision", r: about })
      const { "thread-id": thread, ...shown } = aps
      assert.match(thread, /^[A-Za-z0-9_-]{16}$/)
      assert.deepStrictEqual(shown, {
        alert: { "title-loc-key": "N_TASK_NEEDS_DECISION_TITLE", "loc-key": "N_TASK_NEEDS_DECISION_BODY" },
        category: "TASK",
        "interruption-level": "active",
        sound: "default"
      })
      assert.isBelow(bytes, 1024)
      assert.strictEqual(priority, "10")
    })
  )

  it.effect("of low priority does not wake the phone", () =>
    Effect.gen(function* () {
      const { heard, on, person } = yield* withPhone()
      yield* happens(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      assert.strictEqual(heard()[0]!.priority, "5")
    })
  )

  it.effect("that is newer takes the place of an older one about the same thing", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      const about = yield* happens(on, person.project_id, "task.blocked")
      yield* TestClock.adjust("1 second")
      yield* happens(on, person.project_id, "task.needs_decision", about)
      yield* drain(on.worker)
      assert.deepStrictEqual(
        (yield* rowsOf(phone.device_id)).map(({ kind, state }) => [kind, state]),
        [
          ["task.blocked", "superseded"],
          ["task.needs_decision", "delivered"]
        ]
      )
      assert.strictEqual(heard().length, 1)
    })
  )

  it.effect("that was shown is replaced on the phone by a newer one about the same thing", () =>
    Effect.gen(function* () {
      const { heard, on, person } = yield* withPhone()
      const about = yield* happens(on, person.project_id, "task.blocked")
      yield* drain(on.worker)
      yield* happens(on, person.project_id, "task.needs_decision", about)
      yield* drain(on.worker)
      const [first, second] = heard()
      assert.strictEqual(first!.collapse_id, second!.collapse_id)
      assert.notInclude(first!.collapse_id, about)
    })
  )

  it.effect("of a kind that is off is not even written", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone({
        preferences: { ...everything, kinds: { "task.blocked": false } }
      })
      yield* happens(on, person.project_id, "task.blocked")
      yield* happens(on, person.project_id, "task.completed")
      assert.deepStrictEqual(yield* rowsOf(phone.device_id), [])
    })
  )

  it.effect("below the minimum priority is not even written", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone({ preferences: { ...everything, minimum_priority: "urgent" } })
      yield* happens(on, person.project_id, "task.blocked")
      yield* happens(on, person.project_id, "task.needs_decision")
      assert.deepStrictEqual(
        (yield* rowsOf(phone.device_id)).map(({ kind }) => kind),
        ["task.needs_decision"]
      )
    })
  )

  it.effect("that its owner switched off meanwhile is suppressed", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      yield* happens(on, person.project_id, "task.blocked")
      yield* phone.prefer(phone.device_id, { ...everything, kinds: { "task.blocked": false } })
      yield* drain(on.worker)
      assert.deepInclude((yield* rowsOf(phone.device_id))[0], { state: "suppressed", last_reason: "not_wanted" })
      assert.deepStrictEqual(heard(), [])
    })
  )

  it.effect("during a pause is held until its end", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 3_600_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* happens(on, person.project_id)
      yield* drain(on.worker)
      assert.deepInclude((yield* rowsOf(phone.device_id))[0], { state: "pending", attempts: 0, last_reason: "paused" })
      yield* TestClock.adjust("59 minutes")
      yield* drain(on.worker)
      assert.strictEqual(heard().length, 0)
      yield* TestClock.adjust("1 minute")
      yield* drain(on.worker)
      assert.strictEqual(heard().length, 1)
    })
  )

  it.effect("that was held comes as soon as the pause is lifted", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 3_600_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* happens(on, person.project_id)
      yield* drain(on.worker)
      yield* phone.prefer(phone.device_id, everything)
      yield* drain(on.worker)
      assert.strictEqual(heard().length, 1)
    })
  )

  it.effect("that would come after its expiry does not come", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 86_400_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* happens(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      assert.deepInclude((yield* rowsOf(phone.device_id))[0], { state: "expired" })
      assert.strictEqual(heard().length, 0)
    })
  )

  it.effect("in quiet hours waits for their end, unless it is urgent and urgent ones may ring", () =>
    Effect.gen(function* () {
      const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      const hour = (hours: number) => new Date(now + hours * 3_600_000).toISOString().slice(11, 16)
      const { heard, on, person, phone } = yield* withPhone({
        preferences: {
          ...everything,
          quiet_hours: {
            enabled: true,
            start: hour(-1),
            end: hour(2),
            time_zone: "Etc/UTC",
            days: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
            allow_urgent: true
          }
        }
      })
      yield* happens(on, person.project_id, "task.blocked")
      yield* happens(on, person.project_id, "task.needs_decision")
      yield* drain(on.worker)
      assert.deepStrictEqual(
        heard().map(({ payload }) => JSON.parse(payload).k),
        ["task.needs_decision"]
      )
      const held = (yield* rowsOf(phone.device_id)).find(({ kind }) => kind === "task.blocked")!
      assert.deepInclude(held, { state: "pending", last_reason: "quiet_hours" })
      yield* TestClock.adjust(Duration.hours(2))
      yield* drain(on.worker)
      assert.strictEqual(heard().length, 2)
    })
  )
})
