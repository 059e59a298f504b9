/** Delivery, from the change to the phone (spec 1.4, 6.3). */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { notificationKindNames, notificationKinds } from "../../../src/wire/mobile/Notifications.ts"
import { deliveriesOf, Delivery, drain, notify, outcomesOf } from "../../support/service/Delivery.ts"
import { everything, makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const withPhone = Effect.fnUntraced(function* (given: Parameters<typeof makeRegisteredPhone>[2] = {}) {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  const phone = yield* makeRegisteredPhone(on, person, given)
  const received = () => on.simulator.received.filter(({ token }) => token === phone.token)
  return { on, person, phone, received }
})

layer(Delivery.layer)("a notification", (it) => {
  it.effect("reaches the phone once", () =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      yield* drain(on.worker)
      assert.strictEqual(received().length, 1)
      const [row] = yield* deliveriesOf(phone.device_id)
      assert.deepInclude(row, { state: "delivered", attempts: 1, last_status: 200 })
      assert.strictEqual(received()[0]!.delivery_id, row!.delivery_id)
    })
  )

  it.effect("names a sentence of the app and opaque ids, and nothing else", () =>
    Effect.gen(function* () {
      const { on, person, received } = yield* withPhone()
      const about = yield* notify(on, person.project_id, "task.needs_decision")
      yield* drain(on.worker)
      const [{ bytes, delivery_id, payload, priority }] = received() as [(typeof on.simulator.received)[number]]
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
      const { on, person, received } = yield* withPhone()
      yield* notify(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      assert.strictEqual(received()[0]!.priority, "5")
    })
  )

  for (const kind of notificationKindNames) {
    it.effect(`of kind ${kind} has the sentence, category, priority and expiry of its kind`, () =>
      Effect.gen(function* () {
        const { on, person, received } = yield* withPhone()
        const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
        yield* notify(on, person.project_id, kind)
        yield* drain(on.worker)
        const [{ expiration, payload, priority }] = received() as [(typeof on.simulator.received)[number]]
        const { aps, k } = JSON.parse(payload)
        const policy = notificationKinds[kind]
        assert.deepStrictEqual([k, aps.category], [kind, policy.category])
        const sentence = `N_${kind.replace(".", "_").toUpperCase()}`
        assert.deepStrictEqual(aps.alert, { "title-loc-key": `${sentence}_TITLE`, "loc-key": `${sentence}_BODY` })
        assert.strictEqual(aps["interruption-level"], policy.priority === "low" ? "passive" : "active")
        assert.strictEqual(priority, ["high", "urgent"].includes(policy.priority) ? "10" : "5")
        assert.strictEqual(expiration, Math.floor(now / 1000) + Duration.toSeconds(policy.lasts))
      })
    )
  }

  it.effect.each([
    ["task.blocked", "task.needs_decision", "task.completed"],
    ["bridge.enrolled", "bridge.rotation_failed", "bridge.revoked"]
  ] as const)("supersedes waiting ones about the same subject: %s, %s, %s", (kinds) =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      const about = yield* notify(on, person.project_id, kinds[0])
      for (const kind of kinds.slice(1)) {
        yield* TestClock.adjust("1 second")
        yield* notify(on, person.project_id, kind, about)
      }
      yield* drain(on.worker)
      assert.deepStrictEqual(
        (yield* deliveriesOf(phone.device_id)).map(({ kind, state }) => [kind, state]),
        kinds.map((kind, n) => [kind, n < 2 ? "superseded" : "delivered"])
      )
      assert.strictEqual(received().length, 1)
    })
  )

  it.effect("has the collapse id of a delivered one about the same subject", () =>
    Effect.gen(function* () {
      const { on, person, received } = yield* withPhone()
      const about = yield* notify(on, person.project_id, "task.blocked")
      yield* drain(on.worker)
      yield* notify(on, person.project_id, "task.needs_decision", about)
      yield* drain(on.worker)
      const [first, second] = received()
      assert.strictEqual(first!.collapse_id, second!.collapse_id)
      assert.notInclude(first!.collapse_id, about)
    })
  )

  it.effect("of a kind that is switched off is not written", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone({
        preferences: { ...everything, kinds: { "task.blocked": false } }
      })
      yield* notify(on, person.project_id, "task.blocked")
      yield* notify(on, person.project_id, "task.completed")
      assert.deepStrictEqual(yield* deliveriesOf(phone.device_id), [])
    })
  )

  it.effect("below the minimum priority is not written", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone({ preferences: { ...everything, minimum_priority: "urgent" } })
      yield* notify(on, person.project_id, "task.blocked")
      yield* notify(on, person.project_id, "task.needs_decision")
      assert.deepStrictEqual(
        (yield* deliveriesOf(phone.device_id)).map(({ kind }) => kind),
        ["task.needs_decision"]
      )
    })
  )

  it.effect("whose kind is switched off before it is sent is suppressed", () =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      yield* notify(on, person.project_id, "task.blocked")
      yield* phone.prefer(phone.device_id, { ...everything, kinds: { "task.blocked": false } })
      assert.deepInclude(yield* outcomesOf(drain(on.worker)), { suppressed: 1 })
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], { state: "suppressed", last_reason: "not_wanted" })
      assert.deepStrictEqual(received(), [])
    })
  )

  it.effect("during a pause is held until the pause ends", () =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 3_600_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* notify(on, person.project_id)
      assert.deepInclude(yield* outcomesOf(drain(on.worker)), { held: 1 })
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], {
        state: "pending",
        attempts: 0,
        last_reason: "paused"
      })
      yield* TestClock.adjust("59 minutes")
      yield* drain(on.worker)
      assert.strictEqual(received().length, 0)
      yield* TestClock.adjust("1 minute")
      yield* drain(on.worker)
      assert.strictEqual(received().length, 1)
    })
  )

  it.effect("that was held is delivered as soon as the pause is lifted", () =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 3_600_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      yield* phone.prefer(phone.device_id, everything)
      yield* drain(on.worker)
      assert.strictEqual(received().length, 1)
    })
  )

  it.effect("that is held beyond its expiry expires", () =>
    Effect.gen(function* () {
      const { on, person, phone, received } = yield* withPhone()
      const until = new Date((yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 86_400_000).toISOString()
      yield* phone.prefer(phone.device_id, { ...everything, paused_until: until })
      yield* notify(on, person.project_id, "task.completed")
      yield* drain(on.worker)
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], { state: "expired" })
      assert.strictEqual(received().length, 0)
    })
  )

  it.effect("in quiet hours is held until their end, unless it is urgent and urgent ones are allowed", () =>
    Effect.gen(function* () {
      const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      const hour = (hours: number) => new Date(now + hours * 3_600_000).toISOString().slice(11, 16)
      const { on, person, phone, received } = yield* withPhone({
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
      yield* notify(on, person.project_id, "task.blocked")
      yield* notify(on, person.project_id, "task.needs_decision")
      yield* drain(on.worker)
      assert.deepStrictEqual(
        received().map(({ payload }) => JSON.parse(payload).k),
        ["task.needs_decision"]
      )
      const held = (yield* deliveriesOf(phone.device_id)).find(({ kind }) => kind === "task.blocked")!
      assert.deepInclude(held, { state: "pending", last_reason: "quiet_hours" })
      yield* TestClock.adjust(Duration.hours(2))
      yield* drain(on.worker)
      assert.strictEqual(received().length, 2)
    })
  )
})
