/** Projects take turns while more is due than fits (decisions.md, Fair delivery). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Channels } from "../../../src/people/channels/Channels.ts"
import { ChannelPush, PushProvider, type ToChannel } from "../../../src/push/channels/Provider.ts"
import * as Claim from "../../../src/push/delivery/claim.ts"
import {
  asJson,
  initialPreferences,
  type NotificationKind,
  notificationKinds,
  rank
} from "../../../src/wire/mobile/Notifications.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { Delivery, leaveWaiting, notify, workerOf } from "../../support/service/Delivery.ts"

layer(Delivery.layer)("a notification for a phone, behind more than two batches of another project", (it) => {
  it.effect("is sent in the next batch, of which the other project has the rest", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const withPhone = Effect.gen(function* () {
        const person = yield* makePerson(on)
        const { device_id, token } = yield* makeRegisteredPhone(on, person)
        const received = () => on.simulator.received.filter((one) => one.token === token).length
        return { project_id: person.project_id, device_id, received }
      })
      const [loud, quiet] = [yield* withPhone, yield* withPhone]
      yield* leaveWaiting(loud.device_id, "task.needs_decision", 250, 60)
      yield* on.worker.round
      yield* notify(on, quiet.project_id, "task.needs_decision")
      yield* on.worker.round
      assert.deepStrictEqual([loud.received(), quiet.received()], [199, 1])
    })
  )
})

layer(Delivery.layer, { timeout: 60_000 })("a notification for a channel, while all places are taken", (it) => {
  it.effect("gets the first place that is free, before a second has passed", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const withChannels = Effect.fnUntraced(function* (channels: number) {
        const { project_id } = yield* Context.get(on.services, Projects).create("Rings")
        yield* Context.get(on.services, Limits).set(project_id, { channels })
        for (let n = 0; n < channels; n++) {
          const url = `https://ntfy.example/${randomUUID()}`
          yield* Context.get(on.services, Channels).create({
            project_id,
            kind: "ntfy",
            url,
            titles: false,
            secret: undefined
          })
        }
        return project_id
      })
      const [loud, quiet] = [yield* withChannels(60), yield* withChannels(1)]
      /** The project of each request, in the order of the requests. Those of the loud one wait for an answer. */
      const sent: Array<string> = []
      const answers = yield* Queue.unbounded<{ readonly status: number }>()
      const send = Effect.fnUntraced(function* ({ message: { project_id } }: ToChannel) {
        sent.push(project_id)
        const { status } = project_id === loud ? yield* Queue.take(answers) : { status: 200 }
        return { status, reason: null, outcome: { _tag: "Delivered" } } as const
      })
      const noApns = PushProvider.of({ name: "log", send: () => Effect.die("no phone is registered") })
      const worker = yield* workerOf({ ...on, services: Context.add(on.services, ChannelPush, { send }) }, noApns)
      const wink = Effect.promise(() => setTimeout(50))
      const tenth = Effect.andThen(TestClock.adjust("100 millis"), wink)
      const delivered = SqlClient.SqlClient.use((sql) => sql`select from push_outbox where state = 'delivered'`)
      const untilDelivered = (count: number, step: Effect.Effect<void>) =>
        Effect.repeat(Effect.andThen(step, delivered), { until: (rows) => rows.length === count })

      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* worker.start
          yield* notify(on, loud)
          while (sent.length < 50) yield* wink
          yield* notify(on, quiet)
          yield* Queue.offer(answers, { status: 200 })
          yield* untilDelivered(1, wink)
          for (let tenths = 0; tenths < 9 && sent.length === 50; tenths++) yield* tenth
          const first = sent.slice(49)
          // The clock stands still while the worker stops, so it delivers the rest before.
          yield* Effect.replicateEffect(Queue.offer(answers, { status: 200 }), 59)
          yield* untilDelivered(61, tenth)
          yield* tenth
          assert.deepStrictEqual(first, [loud, quiet])
        })
      )
    })
  )
})

/** Projects with a channel each, for which so many notifications have been due for so many seconds; returns their ids. */
const makeDue = Effect.fnUntraced(function* (projects: number, each: number, kind: NotificationKind, seconds: number) {
  const sql = yield* SqlClient.SqlClient
  const at = new Date(now.getTime() - seconds * 1000)
  const made = yield* sql<{ readonly project_id: string }>`
    with made as (
      insert into project (project_id, name, created_at)
      select gen_random_uuid(), 'Rings', ${at}::timestamptz from generate_series(1, ${projects}::int)
      returning project_id
    ), device as (
      insert into mobile_device (
        device_id, project_id, provider, environment, topic, token_key_id, token_sealed, token_lookup, token_updated_at, state,
        created_at, last_seen_at, preferences)
      select gen_random_uuid(), project_id, 'ntfy', 'channel', 'ntfy.example', 'k', sha256('sealed'),
             sha256(project_id::text::bytea), ${at}::timestamptz, 'active', ${at}::timestamptz, ${at}::timestamptz,
             ${asJson(initialPreferences)}::jsonb
        from made
      returning device_id, project_id
    ), due as (
      insert into push_outbox (
        delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at, created_at)
      select gen_random_uuid(), gen_random_uuid(), device_id, project_id, ${kind}::text,
             ${rank(notificationKinds[kind].priority)}::smallint, 't:' || n, 'pending', ${at}::timestamptz,
             ${lease.until}::timestamptz, ${at}::timestamptz
        from device
       cross join generate_series(1, ${each}::int) n
    )
    select project_id from made`
  return made.map(({ project_id }) => project_id)
})

const now = new Date()
const lease = { token: randomUUID(), until: new Date(now.getTime() + 30_000) }

layer(TestDatabase.sql)("a turn", (it) => {
  /** Of how many deliveries each claim is, by project. */
  const claiming = Effect.gen(function* () {
    const claim = yield* Claim.make
    const sql = yield* SqlClient.SqlClient
    yield* sql`delete from push_outbox`
    return Effect.map(claim("channel", 20, lease, now), (claimed) => {
      const byProject = Map.groupBy(claimed, ({ project_id }) => project_id)
      return new Map([...byProject].map(([project_id, deliveries]) => [project_id, deliveries.length]))
    })
  })

  it.effect(
    "serves each project once, the one whose notifications waited longest first, and half of it goes by that alone",
    () =>
      Effect.gen(function* () {
        const claim = yield* claiming
        const [first] = yield* makeDue(1, 500, "task.needs_decision", 4)
        const [second] = yield* makeDue(1, 500, "task.needs_decision", 3)
        const [third] = yield* makeDue(1, 500, "task.needs_decision", 2)
        const [last] = yield* makeDue(1, 1, "task.blocked", 1)
        const claims = yield* Effect.replicateEffect(claim, 4)
        assert.deepStrictEqual(
          claims.map((counts) => Object.fromEntries(counts)),
          [
            { [first!]: 20 },
            { [first!]: 10, [second!]: 10 },
            { [first!]: 10, [third!]: 10 },
            { [first!]: 19, [last!]: 1 }
          ]
        )
      })
  )

  it.effect("is over after a hundred projects, so that none is left out for longer", () =>
    Effect.gen(function* () {
      const claim = yield* claiming
      yield* makeDue(1, 500, "task.needs_decision", 2)
      const others = new Set(yield* makeDue(200, 1, "task.blocked", 1))
      const [, counts] = yield* Effect.replicateEffect(claim, 11)
      const served = [...counts!.keys()].find((project_id) => others.has(project_id))!
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        update push_outbox
           set state = 'pending', lease_token = null, lease_until = null, priority = 3, not_before = ${now}
         where project_id = ${served}::uuid`
      const claims = yield* Effect.replicateEffect(claim, 2)
      assert.deepStrictEqual(
        claims.map((counts) => counts.has(served)),
        [false, true]
      )
    })
  )
})
