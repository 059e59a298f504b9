/** Channels of a project from the change to the receiver: what it gets, what its answers mean, and who pays for a slow one. */
import { assert, it as plain, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createHmac, randomUUID } from "node:crypto"
import { Channels, type NewChannel } from "../../src/people/channels/Channels.ts"
import { Limits } from "../../src/operator/limits/Limits.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { PostNetwork } from "../../src/platform/network/GuardedPost.ts"
import { PushAdmin } from "../../src/push/admin/PushAdmin.ts"
import { ChannelPush } from "../../src/push/channels/Provider.ts"
import { isSecret, makeSecret } from "../../src/push/channels/webhook/webhook.ts"
import { makeToken } from "../support/agents/Agent.ts"
import { csrfOf, makeOperator, Person } from "../support/people/Console.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { apnsSimulator } from "../support/phones/ApnsSimulator.ts"
import { host, makeReceiver, type Received } from "../support/phones/Receiver.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { allRows } from "../support/database/Rows.ts"
import { apnsOf, deliveriesOf, drain, notify, workerOf } from "../support/service/Delivery.ts"
import { instance } from "../support/service/Service.ts"

const make = Effect.gen(function* () {
  const receiver = yield* makeReceiver()
  const apns = yield* apnsOf(yield* apnsSimulator())
  const replica = (settings: Readonly<Record<string, string>> = {}) =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_CHANNEL_PRIVATE_HOSTS: host, ...settings }).pipe(
        Effect.provideService(PostNetwork, receiver.network)
      )
      return { ...on, worker: yield* workerOf(on, apns) }
    })
  return { ...(yield* replica()), replica, receiver, apns }
})

class Ringing extends Context.Service<Ringing, Effect.Success<typeof make>>()("test/Ringing") {
  static readonly layer = Layer.effect(Ringing, make).pipe(Layer.provideMerge(TestDatabase.sql))
}

/** Lets the worker and the clock go on until the fiber ends. */
const joined = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> =>
  Effect.gen(function* () {
    while (fiber.pollUnsafe() === undefined) {
      yield* TestClock.adjust("100 millis")
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 10)))
    }
    return yield* Fiber.join(fiber)
  })

const signedInOperator = Effect.fnUntraced(function* (on: Parameters<typeof makeOperator>[0]) {
  const { code, person } = yield* makeOperator(on)
  yield* person.post("/console/enter", { code })
  return { person, csrf: csrfOf(yield* person.get("/console/projects")) }
})

plain("the secret of a webhook has 24 to 64 bytes", () => {
  const ofBytes = (count: number) => `whsec_${Buffer.alloc(count, 1).toString("base64")}`
  assert.deepStrictEqual(
    [23, 24, 64, 65].map((count) => isSecret(ofBytes(count))),
    [false, true, true, false]
  )
})

let paths = 0
const withChannel = Effect.fnUntraced(function* (given: Partial<NewChannel> = {}) {
  const on = yield* Ringing
  const channels = Context.get(on.services, Channels)
  const project_id = given.project_id ?? (yield* Context.get(on.services, Projects).create("Rings")).project_id
  const path = `/hook/${++paths}`
  const secret = makeSecret()
  const kind = given.kind ?? "webhook"
  const channel = { project_id, kind, url: `${on.receiver.origin}${path}`, titles: false, secret, ...given }
  const { channel_id } = yield* channels.create(channel)
  const received = () => on.receiver.received.filter((one) => one.path === path)
  return { on, channels, project_id, path, secret, channel_id, received, answers: on.receiver.answers }
})
const accepted = { status: 200, reason: null, outcome: { _tag: "Delivered" } } as const
const last = (channel_id: string) => Effect.map(deliveriesOf(channel_id), (rows) => rows.at(-1)!)

/** As a receiver does that knows the specification and nothing of this service. */
const verifies = ({ body, headers }: Received, secret: Redacted.Redacted<string>) => {
  const key = Buffer.from(Redacted.value(secret).replace("whsec_", ""), "base64")
  const text = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`
  const expected = `v1,${createHmac("sha256", key).update(text).digest("base64")}`
  return String(headers["webhook-signature"]).split(" ").includes(expected)
}

layer(Ringing.layer, { timeout: 60_000 })("a channel", (it) => {
  it.effect("is a webhook that says what happened, where to look, and proves where it comes from", () =>
    Effect.gen(function* () {
      const { channel_id, on, project_id, received, secret } = yield* withChannel()
      const agent = yield* Agent.make(on, { project_id })
      const task = yield* agent.task("The title stays here")
      yield* agent.update(task, { status: "blocked", blocked_reason: "Which?", blocked_kind: "decision" })
      yield* drain(on.worker)
      const [request] = received() as [Received]
      assert.isTrue(verifies(request, secret))
      assert.isFalse(verifies(request, makeSecret()))
      const { delivery_id } = yield* last(channel_id)
      assert.strictEqual(request.headers["webhook-id"], delivery_id)
      assert.strictEqual(request.headers["content-type"], "application/json")
      const { timestamp, ...rest } = JSON.parse(request.body)
      assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.deepStrictEqual(rest, {
        type: "task.needs_decision",
        data: {
          project_id,
          kind: "task.needs_decision",
          url: `http://127.0.0.1:8787/console/${project_id}/tasks/${task.id}`,
          subject_id: task.id,
          version: 2
        }
      })
      assert.deepInclude(yield* last(channel_id), { state: "delivered", attempts: 1 })
    })
  )

  it.effect("carries the title of the task only if the operator wants it", () =>
    Effect.gen(function* () {
      const { on, project_id, received } = yield* withChannel({ titles: true })
      const ntfy = yield* withChannel({ project_id, kind: "ntfy", titles: true, secret: undefined })
      const silent = yield* withChannel({ project_id, kind: "ntfy", secret: undefined })
      const agent = yield* Agent.make(on, { project_id })
      const task = yield* agent.task("Größe wählen")
      yield* agent.update(task, { status: "blocked", blocked_reason: "Which?", blocked_kind: "decision" })
      yield* drain(on.worker)
      assert.strictEqual(JSON.parse(received()[0]!.body).data.title, "Größe wählen")
      assert.strictEqual(ntfy.received()[0]!.body, "Größe wählen")
      assert.strictEqual(silent.received()[0]!.body, "Open the console to see it.")
    })
  )

  it.effect("is a topic of ntfy with title, link, priority and token", () =>
    Effect.gen(function* () {
      const secret = Redacted.make("tk_abcdefgh")
      const { on, project_id, received } = yield* withChannel({ kind: "ntfy", secret })
      const about = yield* notify(on, project_id, "task.needs_decision")
      yield* drain(on.worker)
      assert.deepInclude(received()[0]!.headers, {
        title: "A task needs a decision",
        priority: "5",
        click: `http://127.0.0.1:8787/console/${project_id}/tasks/${about}`,
        authorization: "Bearer tk_abcdefgh"
      })
      yield* notify(on, project_id, "task.blocked")
      yield* drain(on.worker)
      assert.deepInclude(received()[1]!.headers, { title: "A task is blocked", priority: "4" })
    })
  )

  it.effect("is told about tasks alone", () =>
    Effect.gen(function* () {
      const { channel_id, on, project_id, received } = yield* withChannel()
      for (const kind of [
        "bridge.enrolled",
        "bridge.revoked",
        "bridge.rotation_failed",
        "security.client_authorized"
      ] as const) {
        yield* notify(on, project_id, kind)
      }
      // Off unless somebody switches it on, as on a phone.
      yield* notify(on, project_id, "task.completed")
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select kind from push_outbox where device_id = ${channel_id}::uuid`, [])
      // What a replica of an earlier release would have written.
      yield* sql`
        insert into push_outbox (
          delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before, expires_at,
          created_at)
        select gen_random_uuid(), gen_random_uuid(), ${channel_id}::uuid, ${project_id}::uuid, 'bridge.enrolled',
               ${randomUUID()}, 2, 'b', 'pending', at, at + interval '1 hour', at
          from (select to_timestamp(0) as at) t`
      yield* drain(on.worker)
      assert.deepStrictEqual(received(), [])
      assert.deepInclude(yield* last(channel_id), { state: "suppressed", last_reason: "not_wanted" })
    })
  )

  const outcomes = [
    [204, { state: "delivered", attempts: 1 }, "active"],
    [410, { state: "suppressed", last_status: 410, last_reason: "target_gone" }, "inactive"],
    [404, { state: "dead", last_status: 404, last_reason: "refused" }, "active"],
    [401, { state: "dead", last_status: 401, last_reason: "refused" }, "active"],
    [429, { state: "pending", attempts: 1, last_reason: "too_many_requests" }, "active"],
    [503, { state: "pending", attempts: 1, last_status: 503 }, "active"],
    ["hang", { state: "pending", attempts: 1, last_status: null, last_reason: "unreachable" }, "active"],
    ["endless", { state: "delivered" }, "active"],
    [[302, { location: "https://169.254.169.254/" }], { state: "dead", last_status: 302 }, "active"]
  ] as const
  for (const [answer, row, state] of outcomes) {
    it.effect(`whose receiver answers ${JSON.stringify(answer)}: ${JSON.stringify(row)}`, () =>
      Effect.gen(function* () {
        const { answers, channel_id, channels, on, path, project_id, received } = yield* withChannel()
        answers.set(path, answer)
        yield* notify(on, project_id)
        yield* drain(on.worker)
        assert.lengthOf(received(), 1)
        assert.deepInclude(yield* last(channel_id), row)
        const [listed] = yield* channels.list(project_id, { after: undefined, limit: 9 })
        assert.strictEqual(listed!.state, state)
      })
    )
  }

  it.effect.each([410, 503, 429])("whose receiver answers %i gets nothing else of the same round", (status) =>
    Effect.gen(function* () {
      const { answers, on, path, project_id, received } = yield* withChannel()
      answers.set(path, status)
      for (let n = 0; n < 3; n++) yield* notify(on, project_id)
      yield* on.worker.round
      assert.lengthOf(received(), 1)
    })
  )

  it.effect("gets a repeated notification under the same id", () =>
    Effect.gen(function* () {
      const { answers, channel_id, on, path, project_id, received, secret } = yield* withChannel()
      answers.set(path, [503, { "retry-after": "90" }])
      yield* notify(on, project_id)
      yield* drain(on.worker)
      answers.delete(path)
      yield* TestClock.adjust("89 seconds")
      yield* drain(on.worker)
      assert.lengthOf(received(), 1)
      yield* TestClock.adjust("3 minutes")
      yield* drain(on.worker)
      const ids = received().map(({ headers }) => headers["webhook-id"])
      assert.deepStrictEqual([ids.length, new Set(ids).size], [2, 1])
      assert.isTrue(received().every((request) => verifies(request, secret)))
      assert.deepInclude(yield* last(channel_id), { state: "delivered", attempts: 2 })
    })
  )

  it.effect("that never answers costs the others nothing", () =>
    Effect.gen(function* () {
      const first = yield* withChannel()
      const { project_id } = first
      // All channels here are at one host.
      const dead = [first, ...(yield* Effect.replicateEffect(withChannel({ project_id }), 9))]
      for (const { answers, path } of dead) answers.set(path, "hang")
      const on = yield* (yield* Ringing).replica()
      const others = yield* Effect.forEach(Array.from({ length: 9 }), () => withChannel())
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* on.worker.start
          for (let n = 0; n < 3; n++) yield* notify(on, project_id)
          const since = performance.now()
          for (const { project_id } of others) yield* notify(on, project_id)
          yield* Effect.promise(async () => {
            while (others.some(({ received }) => received().length === 0) && performance.now() - since < 10_000) {
              await new Promise((resolve) => setTimeout(resolve, 5))
            }
          })
          for (const { received } of others) assert.lengthOf(received(), 1)
          // They did not wait for the first answers to time out.
          for (const { received } of dead) assert.isAtMost(received().length, 2)
        })
      )
    })
  )

  it.effect("is signed with both secrets while one is replaced", () =>
    Effect.gen(function* () {
      const { channel_id, channels, on, project_id, received, secret } = yield* withChannel()
      const [next, third] = [makeSecret(), makeSecret()]
      assert.deepStrictEqual(yield* channels.rotate(channel_id, next), { channel_id, signs: 2 })
      yield* notify(on, project_id)
      yield* drain(on.worker)
      const signedBy = (request: Received | undefined) => [secret, next, third].map((one) => verifies(request!, one))
      assert.deepStrictEqual(signedBy(received()[0]), [true, true, false])
      // The receiver may know only the oldest, so another one takes the place of the newest, if at all.
      const pending = yield* Effect.flip(channels.rotate(channel_id, third))
      assert.strictEqual(pending._tag, "channel_rotation_pending")
      assert.deepStrictEqual(yield* channels.rotate(channel_id, third, "newest"), { channel_id, signs: 2 })
      yield* notify(on, project_id)
      yield* drain(on.worker)
      assert.deepStrictEqual(signedBy(received()[1]), [true, false, true])
      assert.deepStrictEqual(yield* channels.rotate(channel_id, undefined), { channel_id, signs: 1 })
      yield* notify(on, project_id)
      yield* drain(on.worker)
      assert.deepStrictEqual(signedBy(received()[2]), [false, false, true])
    })
  )

  it.effect("survives the replacement of the key that seals it", () =>
    Effect.gen(function* () {
      const { channel_id, on, project_id, received, secret } = yield* withChannel()
      const rekeyed = yield* on.replica({ SERVICE_PUSH_TOKEN_KEYS: `k1:${Buffer.alloc(32, 7).toString("base64")}` })
      assert.deepInclude(yield* Context.get(rekeyed.services, PushAdmin).rekey, { unreadable: 0 })
      yield* notify(rekeyed, project_id)
      yield* drain(rekeyed.worker)
      assert.isTrue(verifies(received()[0]!, secret))
      assert.deepInclude(yield* last(channel_id), { state: "delivered" })
      yield* Context.get(on.services, Channels).revoke(channel_id)
    })
  )

  it.effect("whose key is gone waits by itself, and the others are rung", () =>
    Effect.gen(function* () {
      const { on, project_id, received } = yield* withChannel()
      const former = yield* on.replica({ SERVICE_PUSH_TOKEN_KEYS: `gone:${Buffer.alloc(32, 9).toString("base64")}` })
      const url = `${on.receiver.origin}/sealed`
      const sealed = { project_id, kind: "webhook", url, titles: false, secret: makeSecret() } as const
      const { channel_id } = yield* Context.get(former.services, Channels).create(sealed)
      for (let n = 0; n < 2; n++) {
        yield* notify(on, project_id)
        yield* drain(on.worker)
      }
      assert.lengthOf(received(), 2)
      assert.deepInclude(yield* last(channel_id), { state: "pending" })
      assert.include(
        (yield* deliveriesOf(channel_id)).map(({ last_reason }) => last_reason),
        "token_key_unknown"
      )
      yield* Context.get(former.services, Channels).revoke(channel_id)
    })
  )

  it.effect("rings for a test, and the answer says what happened", () =>
    Effect.gen(function* () {
      const { answers, channel_id, channels, on, path, project_id, received } = yield* withChannel()
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* (yield* on.replica()).worker.start
          const test = channels.test(channel_id, randomUUID())
          assert.deepInclude(yield* joined(yield* Effect.forkChild(test)), { outcome: "accepted", status: 200 })
          assert.deepInclude(yield* test, { outcome: "accepted", status: 200 })
          assert.lengthOf(received(), 1)
          assert.strictEqual(JSON.parse(received()[0]!.body).type, "device.test")
          answers.set(path, 404)
          const failed = yield* Effect.forkChild(channels.test(channel_id, randomUUID()))
          assert.deepInclude(yield* joined(failed), { outcome: "refused", status: 404, reason: "refused" })
          const [listed] = yield* channels.list(project_id, { after: undefined, limit: 9 })
          assert.deepInclude(listed!, { last_state: "dead", last_status: 404, last_reason: "refused" })
        })
      )
    })
  )

  it.effect(
    "is tested by an operator on the console's page of phones, which says what came of it, and to nobody its address",
    () =>
      Effect.gen(function* () {
        const { channel_id, on, path, project_id, received } = yield* withChannel({ kind: "ntfy", secret: undefined })
        const operator = yield* signedInOperator(on)
        const page = `/console/${project_id}/phones`
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* (yield* on.replica()).worker.start
            const form = { csrf: operator.csrf, action: "test-channel", channel: channel_id }
            const sent = yield* joined(yield* Effect.forkChild(operator.person.post(page, form)))
            assert.deepEqual([sent.status, sent.headers.get("location")], [303, `${page}?done=test-channel`])
          })
        )
        assert.lengthOf(received(), 1)
        const shown = (yield* operator.person.get(`${page}?done=test-channel`)).text
        assert.include(shown, "last notification: delivered, 200")
        assert.notInclude(shown, path)
        const { token } = yield* makeToken(on, { project_id, role: "reader" })
        const reader = new Person(on.url)
        yield* reader.signIn(token)
        const seen = (yield* reader.get(page)).text
        assert.include(seen, "ntfy at hooks.example")
        assert.notInclude(seen, "test-channel")
        assert.notInclude(seen, path)
      })
  )

  it.effect("that is revoked, or whose project is disabled, is not rung", () =>
    Effect.gen(function* () {
      const { channel_id, channels, on, project_id, received } = yield* withChannel()
      const disabled = yield* withChannel()
      yield* notify(on, project_id)
      yield* notify(on, disabled.project_id)
      const first = yield* channels.revoke(channel_id)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* channels.revoke(channel_id), first)
      yield* Context.get(on.services, Projects).disable(disabled.project_id)
      yield* drain(on.worker)
      assert.deepStrictEqual([received(), disabled.received()], [[], []])
      assert.strictEqual((yield* Effect.flip(channels.test(channel_id, randomUUID())))._tag, "channel_revoked")
      assert.strictEqual((yield* Effect.flip(channels.rotate(channel_id, undefined)))._tag, "channel_revoked")
    })
  )

  it.effect("has its address and secrets in no row, and ten stand beside each other at most", () =>
    Effect.gen(function* () {
      const { channels, on, path, project_id, secret } = yield* withChannel()
      const rows = JSON.stringify(yield* allRows)
      assert.notInclude(rows, path)
      assert.notInclude(rows, Redacted.value(secret))
      for (let n = 1; n < 10; n++) yield* withChannel({ project_id })
      const eleventh = { project_id, kind: "webhook", url: `${on.receiver.origin}/x`, titles: false, secret } as const
      assert.strictEqual((yield* Effect.flip(channels.create(eleventh)))._tag, "channel_limit_reached")
      yield* Context.get(on.services, Limits).set(project_id, { channels: 11 })
      yield* channels.create(eleventh)
      assert.strictEqual((yield* Effect.flip(channels.create(eleventh)))._tag, "channel_limit_reached")
    })
  )

  it.effect("is made once, however often its command is repeated, also where the limit is reached by it", () =>
    Effect.gen(function* () {
      const { channels, on, path, project_id, secret } = yield* withChannel()
      yield* Context.get(on.services, Limits).set(project_id, { channels: 2 })
      const url = `${on.receiver.origin}${path}/two`
      const channel = { project_id, kind: "webhook", url, titles: true, secret } as const
      const channel_id = randomUUID()
      const made = yield* channels.create(channel, channel_id)
      const { host } = new URL(url)
      assert.deepStrictEqual(made, { channel_id, project_id, kind: "webhook", host, titles: true })
      assert.deepStrictEqual(yield* channels.create(channel, channel_id), made)
      const sql = yield* SqlClient.SqlClient
      const events = yield* sql`
        select 1 from audit_event where action = 'channel.created' and subject ->> 'channel_id' = ${channel_id}`
      assert.lengthOf(events, 1)
    })
  )

  for (const url of [
    "http://ntfy.sh/topic",
    "https://127.0.0.1/topic",
    "https://[::1]/topic",
    "https://2130706433/topic",
    "https://localhost/topic",
    "https://user:password@ntfy.sh/topic",
    "https://ntfy.sh/topic#fragment",
    "ftp://ntfy.sh/topic"
  ]) {
    it.effect(`is not made for ${url}`, () =>
      Effect.gen(function* () {
        const refused = yield* Effect.flip(withChannel({ url }))
        assert.strictEqual(refused._tag, "channel_target_not_allowed")
      })
    )
  }

  for (const named of ["ntfy.example", "ntfy", "127.0.0.1"]) {
    it.effect(`may be plain http at ${named}, if the operator named it`, () =>
      Effect.gen(function* () {
        const { receiver, replica } = yield* Ringing
        const on = yield* replica({ SERVICE_CHANNEL_PRIVATE_HOSTS: named })
        const { project_id } = yield* Context.get(on.services, Projects).create("Rings")
        const url = `${receiver.plain.replace(host, named)}/plain`
        yield* Context.get(on.services, Channels).create({
          project_id,
          kind: "ntfy",
          url,
          titles: false,
          secret: undefined
        })
        yield* notify(on, project_id)
        yield* drain(on.worker)
        assert.lengthOf(
          receiver.received.filter((one) => one.headers.host === new URL(url).host),
          1
        )
      })
    )
  }

  it.effect("whose host the operator has taken away is not posted to", () =>
    Effect.gen(function* () {
      const { receiver } = yield* Ringing
      const { channel_id, on, project_id } = yield* withChannel({ url: `${receiver.plain}/taken` })
      const strict = yield* on.replica({ SERVICE_CHANNEL_PRIVATE_HOSTS: "other.example" })
      yield* notify(strict, project_id)
      yield* drain(strict.worker)
      assert.deepInclude(yield* last(channel_id), { state: "pending", last_reason: "target_not_allowed" })
    })
  )

  it.effect("whose receiver takes its time does not keep its lease: the rest goes back to the queue", () =>
    Effect.gen(function* () {
      const { channel_id, on, project_id } = yield* withChannel()
      const send = () => Effect.as(TestClock.adjust("8 seconds"), accepted)
      const worker = yield* workerOf({ ...on, services: Context.add(on.services, ChannelPush, { send }) }, on.apns)
      for (let n = 0; n < 4; n++) yield* notify(on, project_id)
      yield* worker.round
      const states = (yield* deliveriesOf(channel_id)).map(({ last_reason, state }) => [state, last_reason])
      assert.deepStrictEqual(states.toSorted(), [
        ["delivered", null],
        ["delivered", null],
        ["pending", "paused"],
        ["pending", "paused"]
      ])
    })
  )

  it.effect("whose name leads to a private address at the second look is not posted to", () =>
    Effect.gen(function* () {
      const { channel_id, on, project_id, received } = yield* withChannel()
      const strict = yield* on.replica({ SERVICE_CHANNEL_PRIVATE_HOSTS: "other.example" })
      on.receiver.addresses.unshift(["127.0.0.1", "93.184.216.34"])
      yield* notify(strict, project_id)
      yield* drain(strict.worker)
      assert.deepStrictEqual(received(), [])
      assert.deepInclude(yield* last(channel_id), { state: "pending", attempts: 1, last_reason: "unreachable" })
    })
  )
})
