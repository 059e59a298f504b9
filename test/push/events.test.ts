/** What a person away from the desk hears of (spec 6.3; contract section 7): each change, and nothing else. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Outbox } from "../../src/push/outbox/Outbox.ts"
import { sweeps as rotationSweeps } from "../../src/bridges/rotation/Sweeps.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { Delivery, rowsOf } from "../support/service/Delivery.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../support/phones/Phone.ts"
import { makePerson } from "../support/agents/SignIn.ts"
import { successorOf, tokens } from "../support/bridges/Tokens.ts"

/** A phone of the project, and what it has heard since: kinds, oldest first. */
const listening = Effect.gen(function* () {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  const phone = yield* makeRegisteredPhone(on, person)
  const heard = Effect.map(rowsOf(phone.device_id), (rows) => rows.map(({ kind }) => kind))
  return { on, person, phone, heard, project_id: person.project_id }
})

const working = Effect.gen(function* () {
  const given = yield* listening
  const agent = yield* Agent.make(given.on, { project_id: given.project_id })
  const task = yield* agent.task("A task")
  const update = (version: number, change: object) =>
    Effect.map(agent.update({ id: task.id, version }, change as never), ({ output, text }) => {
      assert.isDefined(output, text)
    })
  return { ...given, agent, task, update }
})

layer(Delivery.layer)("a task", (it) => {
  it.effect("that is blocked for a decision rings as needs_decision, and only as that", () =>
    Effect.gen(function* () {
      const { heard, update } = yield* working
      yield* update(1, { status: "blocked", blocked_kind: "decision", blocked_reason: "Which one?" })
      assert.deepStrictEqual(yield* heard, ["task.needs_decision"])
    })
  )

  for (const blocked_kind of ["external", "other", undefined]) {
    it.effect(`that is blocked with blocked_kind ${blocked_kind} rings as blocked, and only as that`, () =>
      Effect.gen(function* () {
        const { heard, update } = yield* working
        yield* update(1, { status: "blocked", ...(blocked_kind && { blocked_kind }) })
        assert.deepStrictEqual(yield* heard, ["task.blocked"])
      })
    )
  }

  it.effect("whose blocked_kind changes while it is blocked rings once more", () =>
    Effect.gen(function* () {
      const { heard, update } = yield* working
      yield* update(1, { status: "blocked", blocked_kind: "external" })
      yield* TestClock.adjust("1 second")
      yield* update(2, { blocked_kind: "decision" })
      assert.deepStrictEqual(yield* heard, ["task.blocked", "task.needs_decision"])
    })
  )

  it.effect("that stays blocked as it was does not ring again", () =>
    Effect.gen(function* () {
      const { heard, update } = yield* working
      yield* update(1, { status: "blocked", blocked_kind: "external" })
      yield* update(2, { title: "Another title" })
      yield* update(3, { blocked_reason: "Still waiting" })
      assert.deepStrictEqual(yield* heard, ["task.blocked"])
    })
  )

  it.effect("that is done rings as completed", () =>
    Effect.gen(function* () {
      const { heard, update } = yield* working
      yield* update(1, { status: "in_progress" })
      yield* update(2, { status: "done" })
      assert.deepStrictEqual(yield* heard, ["task.completed"])
    })
  )

  it.effect("whose update is refused does not ring", () =>
    Effect.gen(function* () {
      const { agent, heard, task, update } = yield* working
      yield* update(1, { title: "Another title" })
      const stale = yield* agent.update({ id: task.id, version: 1 }, { status: "blocked" })
      assert.strictEqual(stale.code, "stale_version")
      assert.deepStrictEqual(yield* heard, [])
    })
  )

  it.effect("whose update is retried with its idempotency key rings once", () =>
    Effect.gen(function* () {
      const { heard, update } = yield* working
      yield* update(1, { status: "blocked", idempotency_key: "once" })
      yield* update(1, { status: "blocked", idempotency_key: "once" })
      assert.deepStrictEqual(yield* heard, ["task.blocked"])
    })
  )

  it.effect("of another project does not ring", () =>
    Effect.gen(function* () {
      const { heard } = yield* listening
      const { update } = yield* working
      yield* update(1, { status: "blocked" })
      assert.deepStrictEqual(yield* heard, [])
    })
  )
})

layer(Delivery.layer)("a Bridge", (it) => {
  it.effect("that enrolls rings once, however often its proof is repeated", () =>
    Effect.gen(function* () {
      const { heard, on, project_id } = yield* listening
      const bridge = yield* Bridge.make(on, { project_id })
      const challenge = yield* bridge.askChallenge(on)
      yield* bridge.prove(on, challenge)
      yield* bridge.prove(on, challenge)
      assert.deepStrictEqual(yield* heard, ["bridge.enrolled"])
    })
  )

  it.effect("whose proof fails does not ring", () =>
    Effect.gen(function* () {
      const { heard, on, project_id } = yield* listening
      const bridge = yield* Bridge.make(on, { project_id })
      const challenge = yield* bridge.askChallenge(on)
      const refused = yield* bridge.prove(on, challenge, { body: { signature_b64: "A".repeat(86) } })
      assert.strictEqual(refused.code, "enrollment_proof_invalid")
      assert.deepStrictEqual(yield* heard, [])
    })
  )

  it.effect("that is revoked rings once, however often", () =>
    Effect.gen(function* () {
      const { heard, on, project_id } = yield* listening
      const bridge = yield* Bridge.make(on, { project_id })
      yield* bridge.enroll(on)
      const bridges = Context.get(on.services, Bridges)
      yield* TestClock.adjust("1 second")
      yield* bridges.revoke(project_id, bridge.bridge_id)
      yield* bridges.revoke(project_id, bridge.bridge_id)
      assert.deepStrictEqual(yield* heard, ["bridge.enrolled", "bridge.revoked"])
    })
  )

  const rotating = Effect.gen(function* () {
    const given = yield* listening
    const bridge = yield* Bridge.make(given.on, { project_id: given.project_id })
    const token = yield* bridge.enroll(given.on)
    const at = tokens(given.on)
    const pending = successorOf(yield* at.prepare(token))
    yield* TestClock.adjust("1 second")
    return { ...given, ...at, ...pending, token }
  })

  it.effect("whose rotation is confirmed or aborted does not ring", () =>
    Effect.gen(function* () {
      const confirmed = yield* rotating
      yield* confirmed.confirm(confirmed.successor, confirmed.rotation_id)
      assert.deepStrictEqual(yield* confirmed.heard, ["bridge.enrolled"])
      const aborted = yield* rotating
      yield* aborted.abort(aborted.successor, aborted.rotation_id)
      assert.deepStrictEqual(yield* aborted.heard, ["bridge.enrolled"])
    })
  )

  it.effect("whose rotation is not confirmed in time rings when that is swept", () =>
    Effect.gen(function* () {
      const { heard, on } = yield* rotating
      yield* TestClock.adjust("5 minutes")
      yield* sweepOnce(rotationSweeps).pipe(Effect.provideContext(on.services))
      assert.deepStrictEqual(yield* heard, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )

  it.effect("whose rotation is not confirmed in time rings when it prepares again", () =>
    Effect.gen(function* () {
      const { heard, on, prepare, token } = yield* rotating
      yield* TestClock.adjust("5 minutes")
      yield* prepare(token, "bridge-rotate-2")
      yield* sweepOnce(rotationSweeps).pipe(Effect.provideContext(on.services))
      assert.deepStrictEqual(yield* heard, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )

  it.effect("whose token is revoked during a rotation rings", () =>
    Effect.gen(function* () {
      const { heard, revoke, token } = yield* rotating
      yield* revoke(token)
      assert.deepStrictEqual(yield* heard, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )
})

layer(Delivery.layer)("security", (it) => {
  it.effect("rings when a client is authorized", () =>
    Effect.gen(function* () {
      const { heard, on, project_id } = yield* listening
      yield* makePerson(on, { project_id })
      assert.deepStrictEqual(yield* heard, ["security.client_authorized"])
    })
  )

  it.effect("of the device list cannot be switched off by a minimum priority or a missing kind", () =>
    Effect.gen(function* () {
      const { heard, on, person, phone } = yield* listening
      yield* phone.prefer(phone.device_id, {
        kinds: {},
        minimum_priority: "urgent",
        quiet_hours: null,
        paused_until: null
      })
      yield* makeRegisteredPhone(on, person)
      assert.deepStrictEqual(yield* heard, ["security.device_added"])
    })
  )
})

layer(Delivery.layer)("a change that is rolled back", (it) => {
  it.effect("leaves no notification", () =>
    Effect.gen(function* () {
      const { heard, on, project_id } = yield* listening
      const sql = Context.get(on.services, SqlClient.SqlClient)
      const outbox = Context.get(on.services, Outbox)
      const about = "01890000-0000-7000-8000-000000000000"
      const now = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
      const notice = { kind: "task.blocked" as const, event_id: about, project_id, about }
      const rolledBack = sql.withTransaction(
        Effect.andThen(outbox.enqueue(now, notice), Effect.fail("a failure of the change"))
      )
      assert.strictEqual((yield* Effect.result(rolledBack))._tag, "Failure")
      assert.deepStrictEqual(yield* heard, [])
    })
  )
})
