/** Which changes notify a phone (decisions.md, Which notifications there are), and that nothing else does. */
import { assert, layer } from "@effect/vitest"
import { Array, Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Outbox } from "../../src/push/outbox/Outbox.ts"
import { sweeps as bridgeSweeps } from "../../src/bridges/Wing.ts"
import { initialPreferences } from "../../src/wire/mobile/Notifications.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { deliveriesOf, Delivery, leaveWaiting, notify } from "../support/service/Delivery.ts"
import { instance } from "../support/service/Service.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../support/phones/Phone.ts"
import { makePerson } from "../support/people/SignIn.ts"
import { successorOf, tokens } from "../support/bridges/Tokens.ts"

/** A phone of the project; `kinds`: the notifications written for it since, oldest first. */
const withPhone = Effect.gen(function* () {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  const phone = yield* makeRegisteredPhone(on, person)
  const kinds = Effect.map(deliveriesOf(phone.device_id), (rows) => rows.map(({ kind }) => kind))
  return { on, person, phone, kinds, project_id: person.project_id }
})

const withTask = Effect.gen(function* () {
  const given = yield* withPhone
  const agent = yield* Agent.make(given.on, { project_id: given.project_id })
  const task = yield* agent.task("A task")
  const update = (version: number, change: object) =>
    Effect.map(agent.update({ id: task.id, version }, change as never), ({ output, text }) => {
      assert.isDefined(output, text)
    })
  return { ...given, agent, task, update }
})

layer(Delivery.layer)("a task", (it) => {
  it.effect("that becomes blocked for a decision notifies once, as task.needs_decision", () =>
    Effect.gen(function* () {
      const { kinds, update } = yield* withTask
      yield* update(1, { status: "blocked", blocked_kind: "decision", blocked_reason: "Which one?" })
      assert.deepStrictEqual(yield* kinds, ["task.needs_decision"])
    })
  )

  for (const blocked_kind of ["external", "other", undefined]) {
    it.effect(`that becomes blocked with blocked_kind ${blocked_kind} notifies once, as task.blocked`, () =>
      Effect.gen(function* () {
        const { kinds, update } = yield* withTask
        yield* update(1, { status: "blocked", ...(blocked_kind && { blocked_kind }) })
        assert.deepStrictEqual(yield* kinds, ["task.blocked"])
      })
    )
  }

  it.effect("whose blocked_kind changes while it is blocked notifies again", () =>
    Effect.gen(function* () {
      const { kinds, update } = yield* withTask
      yield* update(1, { status: "blocked", blocked_kind: "external" })
      yield* TestClock.adjust("1 second")
      yield* update(2, { blocked_kind: "decision" })
      assert.deepStrictEqual(yield* kinds, ["task.blocked", "task.needs_decision"])
    })
  )

  it.effect("that stays blocked for the same reason does not notify again", () =>
    Effect.gen(function* () {
      const { kinds, update } = yield* withTask
      yield* update(1, { status: "blocked", blocked_kind: "external" })
      yield* update(2, { title: "Another title" })
      yield* update(3, { blocked_reason: "Still waiting" })
      assert.deepStrictEqual(yield* kinds, ["task.blocked"])
    })
  )

  it.effect("that is done notifies as task.completed", () =>
    Effect.gen(function* () {
      const { kinds, update } = yield* withTask
      yield* update(1, { status: "in_progress" })
      yield* update(2, { status: "done" })
      assert.deepStrictEqual(yield* kinds, ["task.completed"])
    })
  )

  it.effect("whose update is refused does not notify", () =>
    Effect.gen(function* () {
      const { agent, kinds, task, update } = yield* withTask
      yield* update(1, { title: "Another title" })
      const stale = yield* agent.update({ id: task.id, version: 1 }, { status: "blocked" })
      assert.strictEqual(stale.code, "stale_version")
      assert.deepStrictEqual(yield* kinds, [])
    })
  )

  it.effect("whose update is retried with its idempotency key notifies once", () =>
    Effect.gen(function* () {
      const { kinds, update } = yield* withTask
      yield* update(1, { status: "blocked", idempotency_key: "once" })
      yield* update(1, { status: "blocked", idempotency_key: "once" })
      assert.deepStrictEqual(yield* kinds, ["task.blocked"])
    })
  )

  it.effect("of another project does not notify", () =>
    Effect.gen(function* () {
      const { kinds } = yield* withPhone
      const { update } = yield* withTask
      yield* update(1, { status: "blocked" })
      assert.deepStrictEqual(yield* kinds, [])
    })
  )
})

layer(Delivery.layer)("a Bridge", (it) => {
  it.effect("that enrolls notifies once, even if its proof is repeated", () =>
    Effect.gen(function* () {
      const { kinds, on, project_id } = yield* withPhone
      const bridge = yield* Bridge.make(on, { project_id })
      const challenge = yield* bridge.askChallenge(on)
      yield* bridge.prove(on, challenge)
      yield* bridge.prove(on, challenge)
      assert.deepStrictEqual(yield* kinds, ["bridge.enrolled"])
    })
  )

  it.effect("whose proof fails does not notify", () =>
    Effect.gen(function* () {
      const { kinds, on, project_id } = yield* withPhone
      const bridge = yield* Bridge.make(on, { project_id })
      const challenge = yield* bridge.askChallenge(on)
      const refused = yield* bridge.prove(on, challenge, { body: { signature_b64: "A".repeat(86) } })
      assert.strictEqual(refused.code, "enrollment_proof_invalid")
      assert.deepStrictEqual(yield* kinds, [])
    })
  )

  it.effect("that is revoked twice notifies once", () =>
    Effect.gen(function* () {
      const { kinds, on, project_id } = yield* withPhone
      const bridge = yield* Bridge.make(on, { project_id })
      yield* bridge.enroll(on)
      const bridges = Context.get(on.services, Bridges)
      yield* TestClock.adjust("1 second")
      yield* bridges.revoke(project_id, bridge.bridge_id)
      yield* bridges.revoke(project_id, bridge.bridge_id)
      assert.deepStrictEqual(yield* kinds, ["bridge.enrolled", "bridge.revoked"])
    })
  )

  const withRotation = Effect.gen(function* () {
    const given = yield* withPhone
    const bridge = yield* Bridge.make(given.on, { project_id: given.project_id })
    const token = yield* bridge.enroll(given.on)
    const at = tokens(given.on)
    const pending = successorOf(yield* at.prepare(token))
    yield* TestClock.adjust("1 second")
    return { ...given, ...at, ...pending, token }
  })

  it.effect("whose rotation is confirmed or aborted does not notify", () =>
    Effect.gen(function* () {
      const confirmed = yield* withRotation
      yield* confirmed.confirm(confirmed.successor, confirmed.rotation_id)
      assert.deepStrictEqual(yield* confirmed.kinds, ["bridge.enrolled"])
      const aborted = yield* withRotation
      yield* aborted.abort(aborted.successor, aborted.rotation_id)
      assert.deepStrictEqual(yield* aborted.kinds, ["bridge.enrolled"])
    })
  )

  it.effect("whose rotation expires notifies when the sweep ends it", () =>
    Effect.gen(function* () {
      const { kinds, on } = yield* withRotation
      yield* TestClock.adjust("5 minutes")
      yield* sweepOnce(bridgeSweeps).pipe(Effect.provideContext(on.services))
      assert.deepStrictEqual(yield* kinds, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )

  it.effect("whose rotation expires notifies when the next prepare ends it, and only once", () =>
    Effect.gen(function* () {
      const { kinds, on, prepare, token } = yield* withRotation
      yield* TestClock.adjust("5 minutes")
      yield* prepare(token, "bridge-rotate-2")
      yield* sweepOnce(bridgeSweeps).pipe(Effect.provideContext(on.services))
      assert.deepStrictEqual(yield* kinds, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )

  it.effect("whose token is revoked during a rotation notifies", () =>
    Effect.gen(function* () {
      const { kinds, revoke, token } = yield* withRotation
      yield* revoke(token)
      assert.deepStrictEqual(yield* kinds, ["bridge.enrolled", "bridge.rotation_failed"])
    })
  )
})

layer(Delivery.layer)("a security notification", (it) => {
  it.effect("is written when a client is authorized", () =>
    Effect.gen(function* () {
      const { on, phone, project_id } = yield* withPhone
      yield* makePerson(on, { project_id })
      const sql = yield* SqlClient.SqlClient
      const written = yield* sql`
        select o.kind, g.grant_id is not null as "isAboutGrant"
          from push_outbox o
          left join oauth_grant g on g.grant_id = o.reference and g.project_id = o.project_id
         where o.device_id = ${phone.device_id}::uuid`
      assert.deepStrictEqual(written, [{ kind: "security.client_authorized", isAboutGrant: true }])
    })
  )

  it.effect("about a new device is written despite a minimum priority above it", () =>
    Effect.gen(function* () {
      const { kinds, on, person, phone } = yield* withPhone
      yield* phone.prefer(phone.device_id, {
        kinds: {},
        minimum_priority: "urgent",
        quiet_hours: null,
        paused_until: null
      })
      yield* makeRegisteredPhone(on, person)
      assert.deepStrictEqual(yield* kinds, ["security.device_added"])
    })
  )
})

layer(Delivery.layer)("a change that is rolled back", (it) => {
  it.effect("leaves no notification", () =>
    Effect.gen(function* () {
      const { kinds, on, project_id } = yield* withPhone
      const sql = Context.get(on.services, SqlClient.SqlClient)
      const outbox = Context.get(on.services, Outbox)
      const about = "01890000-0000-7000-8000-000000000000"
      const now = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
      const notice = { kind: "task.blocked" as const, event_id: about, project_id, about }
      const rolledBack = sql.withTransaction(
        Effect.andThen(outbox.enqueue(now, notice), Effect.fail("the change failed"))
      )
      assert.strictEqual((yield* Effect.result(rolledBack))._tag, "Failure")
      assert.deepStrictEqual(yield* kinds, [])
    })
  )
})

layer(Delivery.layer)("a project that raises more notifications about tasks than anybody reads", (it) => {
  it.effect(
    "gets 200 and then one in ten seconds from all processes together, other projects theirs, and those about other things come anyway",
    () =>
      Effect.gen(function* () {
        // Each of two has half of that.
        const on = yield* instance({
          SERVICE_RATE_LIMITS: "on",
          SERVICE_APNS_TOPICS: "com.example.app",
          SERVICE_PROCESSES: "2"
        })
        const sql = Context.get(on.services, SqlClient.SqlClient)
        const phoneOf = Effect.gen(function* () {
          const person = yield* makePerson(on)
          const { device_id } = yield* makeRegisteredPhone(on, person, { preferences: initialPreferences })
          const waiting = Effect.map(deliveriesOf(device_id), (rows) => rows.length)
          return { person, waiting }
        })
        const loud = yield* phoneOf
        const quiet = yield* phoneOf
        // The phone does not want to hear of the first, and the others never happened: none of them counts.
        yield* Effect.replicateEffect(notify(on, loud.person.project_id, "task.completed"), 110)
        const undone = sql.withTransaction(
          Effect.andThen(notify(on, loud.person.project_id), Effect.fail("the change failed"))
        )
        yield* Effect.replicateEffect(Effect.result(undone), 110)
        yield* Effect.replicateEffect(notify(on, loud.person.project_id), 110)
        assert.strictEqual(yield* loud.waiting, 100)
        yield* notify(on, quiet.person.project_id)
        assert.strictEqual(yield* quiet.waiting, 1)
        yield* notify(on, loud.person.project_id, "security.client_authorized")
        assert.strictEqual(yield* loud.waiting, 101)
        yield* TestClock.adjust("20 seconds")
        yield* Effect.replicateEffect(notify(on, loud.person.project_id), 2)
        assert.strictEqual(yield* loud.waiting, 102)
      })
  )

  it.effect(
    "or about its sign-ins, gets 200 and then one in ten seconds of these; one about a new device comes anyway",
    () =>
      Effect.gen(function* () {
        const on = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_APNS_TOPICS: "com.example.app" })
        const person = yield* makePerson(on)
        const { device_id } = yield* makeRegisteredPhone(on, person)
        const waiting = Effect.map(deliveriesOf(device_id), (rows) => rows.length)
        const before = yield* waiting
        yield* Effect.replicateEffect(notify(on, person.project_id, "security.client_authorized"), 210)
        assert.strictEqual((yield* waiting) - before, 200)
        yield* notify(on, person.project_id, "security.device_added")
        assert.strictEqual((yield* waiting) - before, 201)
        yield* TestClock.adjust("10 seconds")
        yield* Effect.replicateEffect(notify(on, person.project_id, "security.client_authorized"), 2)
        assert.strictEqual((yield* waiting) - before, 202)
      })
  )

  it.effect("gets half of that from one project token, and the rest from a colleague", () =>
    Effect.gen(function* () {
      // A sixteenth of 200, so that there are few tasks to block.
      const on = yield* instance({
        SERVICE_RATE_LIMITS: "on",
        SERVICE_APNS_TOPICS: "com.example.app",
        SERVICE_PROCESSES: "16"
      })
      const person = yield* makePerson(on)
      const { device_id } = yield* makeRegisteredPhone(on, person)
      const waiting = Effect.map(deliveriesOf(device_id), (rows) => rows.length)
      const raised = Effect.gen(function* () {
        const before = yield* waiting
        const agent = yield* Agent.make(on, { project_id: person.project_id })
        for (let n = 0; n < 8; n++) {
          const change = { status: "blocked", blocked_reason: "Which?", blocked_kind: "decision" } as const
          yield* agent.update(yield* agent.task("A task"), change)
        }
        return (yield* waiting) - before
      })
      assert.deepStrictEqual([yield* raised, yield* raised], [6, 6])
    })
  )
})

layer(Delivery.layer)("a phone for which more waits than anybody reads", (it) => {
  it.effect("keeps the 300 that are most urgent and expire last; other phones keep all of theirs", () =>
    Effect.gen(function* () {
      const { on, person, phone, project_id } = yield* withPhone
      const sibling = yield* makeRegisteredPhone(on, person)
      const { phone: stranger } = yield* withPhone
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from push_outbox`
      yield* leaveWaiting(phone.device_id, "security.device_added", 1, 86_400)
      yield* leaveWaiting(phone.device_id, "task.needs_decision", 300, 60)
      yield* leaveWaiting(phone.device_id, "task.blocked", 1, 1)
      yield* leaveWaiting(sibling.device_id, "task.blocked", 299, 1)
      yield* leaveWaiting(stranger.device_id, "task.blocked", 310, 1)
      yield* notify(on, project_id, "task.needs_decision")
      const statesOf = (device_id: string) =>
        Effect.map(deliveriesOf(device_id), (rows) => rows.map(({ kind, state }) => `${kind} ${state}`))
      assert.deepStrictEqual(yield* statesOf(phone.device_id), [
        "security.device_added pending",
        ...Array.replicate("task.needs_decision superseded", 2),
        ...Array.replicate("task.needs_decision pending", 298),
        "task.blocked superseded",
        "task.needs_decision pending"
      ])
      const others = [...(yield* statesOf(sibling.device_id)), ...(yield* statesOf(stranger.device_id))]
      assert.lengthOf(others, 299 + 1 + 310)
      assert.isTrue(others.every((state) => state.endsWith("pending")))
    })
  )
})
