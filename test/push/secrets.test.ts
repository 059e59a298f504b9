/**
 * Push tokens and texts of a project do not leak (spec 1.5, 2.9): no push token in a row, a file of PostgreSQL, a log
 * line, a span, an answer or a metric; no text of a project in a payload or in the tables of push delivery. The test runs
 * the life of a phone at the finest log level with every fault, and then searches all of these places.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { PushAdmin } from "../../src/push/admin/PushAdmin.ts"
import type { Fault } from "../support/phones/ApnsSimulator.ts"
import { apnsOf, Delivery, drain, notify, workerOf } from "../support/service/Delivery.ts"
import type { Answer } from "../support/network/Http.ts"
import { recording } from "../support/run/Lines.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { everything, makePhone, makeRegisteredPhone } from "../support/phones/Phone.ts"
import { allRows } from "../support/database/Rows.ts"
import { search, utf8 } from "../support/secrets/Canaries.ts"
import { filesSince, lsn, rowsAsText } from "../support/secrets/Secrets.ts"
import { instance } from "../support/service/Service.ts"
import { makePerson } from "../support/people/SignIn.ts"

const key = (id: string) => `${id}:${randomBytes(32).toString("base64")}`

/** One for each way in which a delivery can end; one answer repeats the push token as its reason. */
const faults = (token: string): ReadonlyArray<Fault> => [
  { status: 410, reason: "Unregistered" },
  { status: 400, reason: "BadDeviceToken" },
  { status: 400, reason: "PayloadEmpty" },
  { status: 429, reason: "TooManyRequests" },
  { status: 400, reason: token },
  "hang",
  "kill",
  "refuse",
  { status: 503, reason: "ServiceUnavailable" }
]

layer(Delivery.layer, { timeout: "60 seconds" })("push tokens and texts of a project", (it) => {
  it.effect("leak nowhere in the life of a phone", () =>
    Effect.gen(function* () {
      const { simulator } = yield* Delivery
      const sql = yield* SqlClient.SqlClient
      const start = yield* lsn
      const { lines, record, spansAsText } = recording()
      const texts = ["Canary of a project", "Canary of a task", "Canary of a reason", "Canary of a label"]
      const [k1, k2] = [key("k1"), key("k2")]
      const settings = { SERVICE_LOG_LEVEL: "All", SERVICE_APNS_TOPICS: simulator.topic }

      const { answers, bearers, tokens } = yield* record(
        Effect.gen(function* () {
          const on = yield* instance({ ...settings, SERVICE_PUSH_TOKEN_KEYS: k1 })
          const worker = yield* workerOf(on, yield* apnsOf(simulator))
          const { project_id } = yield* Context.get(on.services, Projects).create(texts[0]!)
          const person = yield* makePerson(on, { project_id })
          const agent = yield* Agent.make(on, { project_id })
          const phone = yield* makeRegisteredPhone(on, person)

          const { device_id, token } = phone
          const refused: Array<Answer> = []
          const refuse = (answer: Effect.Effect<Answer>) =>
            Effect.map(answer, (one) => {
              assert.isAtLeast(one.status, 400, one.text)
              refused.push(one)
            })
          const longer = { topic: undefined, token: `${token}z` }
          yield* refuse(phone.register({ push: longer }))
          yield* refuse(phone.register({ [token]: token }))
          yield* refuse(phone.register({ push: { topic: `${token}!` } }))
          yield* refuse(phone.register({ locale: token }))
          yield* refuse(phone.register({}, { body: JSON.stringify(phone.body()).slice(0, -3) }))
          yield* refuse(phone.register({}, { bearer: token }))
          yield* phone.register({}, { key: token, headers: { "user-agent": `app ${token}` } })
          yield* refuse(makePhone(on, person).register({}, { key: token }))
          yield* refuse(phone.get(token))
          yield* refuse(phone.get(`${device_id}${token}?token=${token}`))
          yield* refuse(phone.prefer(device_id, { ...everything, [token]: true }))
          yield* refuse(phone.prefer(device_id, everything, { headers: { "if-match": token } }))
          yield* Effect.acquireUseRelease(
            sql`alter table mobile_device add constraint broken check (topic = '') not valid`,
            () => refuse(makePhone(on, person, token).register({ push: { environment: "development" } })),
            () => sql`alter table mobile_device drop constraint broken`
          )

          const others = yield* Effect.forEach(faults(token), () => makeRegisteredPhone(on, person))
          yield* drain(worker)
          others.forEach((other, i) => simulator.faults.set(other.token, faults(token)[i]!))
          const task = yield* agent.task(texts[1]!)
          yield* agent.update(task, { status: "blocked", blocked_kind: "decision", blocked_reason: texts[2] })
          yield* drain(worker)
          simulator.faults.clear()
          yield* TestClock.adjust("1 hour")
          yield* drain(worker)

          // Then under a missing key, under a new key, and signed out.
          const without = yield* instance({ ...settings, SERVICE_PUSH_TOKEN_KEYS: k2 })
          yield* notify(on, project_id)
          yield* drain(yield* workerOf(without, yield* apnsOf(simulator)))
          const after = yield* instance({ ...settings, SERVICE_PUSH_TOKEN_KEYS: `${k2},${k1}` })
          yield* Context.get(after.services, PushAdmin).rekey
          yield* phone.revoke(device_id)
          return {
            answers: refused,
            bearers: [person.bearer, person.refresh_token, agent.token].map(String),
            tokens: [token, ...others.map((other) => other.token)]
          }
        })
      )

      const metrics = yield* PrometheusMetrics.format()
      const output = {
        "log lines": utf8(lines.join("\n")),
        spans: utf8(spansAsText().join("\n")),
        metrics: utf8(metrics),
        "error answers": utf8(answers.map(({ headers, text }) => `${JSON.stringify([...headers])} ${text}`).join("\n"))
      }
      assert.isAbove(lines.length, 20)
      assert.include(metrics, "service_push_deliveries_total")
      const secrets = {
        ...Object.fromEntries(tokens.map((token, i) => [`push token ${i}`, Buffer.from(token, "hex")])),
        ...Object.fromEntries(bearers.map((bearer, i) => [`bearer ${i}`, utf8(bearer)])),
        "key of APNs": utf8(simulator.key.split("\n")[1]!),
        "credential at APNs": utf8(Buffer.from(`{"alg":"ES256","kid"`).toString("base64url").slice(0, 24))
      }
      assert.deepStrictEqual(search({ ...output, ...(yield* rowsAsText), ...(yield* filesSince(start)) }, secrets), [])

      const { audit_event, mobile_device, mobile_registration, push_outbox, push_provider_state } = yield* allRows
      const stored = [audit_event, mobile_device, mobile_registration, push_outbox, push_provider_state]
        .flat()
        .join("\n")
      const payloads = simulator.received.map(({ payload }) => payload)
      assert.isNotEmpty(payloads)
      const canaries = Object.fromEntries(texts.map((word) => [word, utf8(word)]))
      const places = { ...output, "rows of push delivery": utf8(stored), payloads: utf8(payloads.join("\n")) }
      assert.deepStrictEqual(search(places, canaries), [])
    })
  )
})
