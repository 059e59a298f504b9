/** Devices of the mobile companion (spec 2.9, 4.12). */
import { assert, it as plain, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes, randomUUID } from "node:crypto"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Devices } from "../../../src/people/mobile/Devices.ts"
import { testedOf } from "../../../src/people/DeviceTest.ts"
import { CurrentOperator } from "../../../src/platform/settings/Operator.ts"
import { notificationKindNames, notificationKinds } from "../../../src/wire/mobile/Notifications.ts"
import { deliveriesOf, Delivery, drain, notify } from "../../support/service/Delivery.ts"
import { makeToken, refreshTimes, signIn as signInAgent } from "../../support/agents/Agent.ts"
import { type Answer, type Ask, send } from "../../support/network/Http.ts"
import { everything, makePhone, makeRegisteredPhone, storedDevice } from "../../support/phones/Phone.ts"
import { instance } from "../../support/service/Service.ts"
import { makeApp, makePerson, makeSubject, signIn } from "../../support/people/SignIn.ts"

const is = (answer: Answer, outcome: number | string) =>
  assert.strictEqual(answer.code ?? answer.status, outcome, answer.text)

plain("whoever tests a device or a channel is told what became of it", () => {
  const told = (state: Parameters<typeof testedOf>[0]["state"], attempts = 1) =>
    testedOf({ state, attempts, last_status: 200, last_reason: null }).outcome
  assert.deepStrictEqual(
    [told("delivered"), told("suppressed"), told("dead"), told("expired"), told("pending"), told("pending", 0)],
    ["accepted", "gone", "refused", "refused", "retrying", "waiting"]
  )
})

const withPhone = Effect.gen(function* () {
  const on = yield* Delivery
  const person = yield* makePerson(on)
  return { on, person, phone: yield* makeRegisteredPhone(on, person) }
})

layer(Delivery.layer)("a registration", (it) => {
  it.effect("answers the device, its version, and nothing of the push token but four digits", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const phone = makePhone(on, yield* makePerson(on))
      const answer = yield* phone.register({ app_version: "1.2.0", os_version: "26.1", locale: "zh-Hant_TW" })
      is(answer, 201)
      const { created_at, device_id, last_seen_at, push, ...rest } = answer.body
      assert.match(device_id, /^[0-9a-f-]{36}$/)
      assert.strictEqual(created_at, last_seen_at)
      assert.match(push.token_fingerprint, /^[0-9a-f]{4}$/)
      assert.deepInclude(push, { provider: "apns", environment: "production", topic: "com.example.app" })
      assert.deepStrictEqual(rest, {
        state: "active",
        platform: "ios",
        preferences: { kinds: {}, minimum_priority: "low", quiet_hours: null, paused_until: null },
        preferences_version: 1
      })
      assert.strictEqual(answer.headers.get("etag"), '"1"')
      assert.strictEqual(answer.headers.get("cache-control"), "no-store")
      assert.notInclude(answer.text, phone.token)
    })
  )

  it.effect("of the same installation by the same person renews the device, with 200", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      yield* TestClock.adjust("5 minutes")
      const again = yield* phone.register({ push: { token: phone.token.toUpperCase() } })
      is(again, 200)
      assert.strictEqual(again.body.device_id, phone.device_id)
      assert.notStrictEqual(again.body.last_seen_at, again.body.created_at)
      assert.deepStrictEqual([again.body.preferences, again.body.preferences_version], [everything, 1])
    })
  )

  it.effect("of the same installation keeps what it does not name, and belongs to the newer sign-in", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      const sql = yield* SqlClient.SqlClient
      const row = Effect.map(
        sql<{ readonly grant_id: string; readonly about: string }>`
          select grant_id, concat_ws(' ', app_version, os_version, locale) as about
            from mobile_device
           where device_id = ${phone.device_id}::uuid`,
        ([found]) => found!
      )
      yield* phone.register({ app_version: "1.0", os_version: "26.1", locale: "es_ES" })
      const { about, grant_id } = yield* row
      assert.strictEqual(about, "1.0 26.1 es_ES")
      // The provider asked to let the phone rest; it is there again.
      yield* sql`
        update mobile_device
           set resting_until = last_seen_at + interval '1 hour'
         where device_id = ${phone.device_id}::uuid`
      const { access_token } = yield* signIn(on, { client_id: person.client_id, token: person.project_token })
      const asked = { bearer: Redacted.value(access_token) }
      is(yield* phone.register({ app_version: "1.1" }, asked), 200)
      const renewed = yield* row
      assert.strictEqual(renewed.about, "1.1 26.1 es_ES")
      assert.notStrictEqual(renewed.grant_id, grant_id)
      yield* Context.get(on.services, Grants).revoke(grant_id)
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      assert.isTrue(on.simulator.received.some(({ token }) => token === phone.token))
    })
  )

  it.effect("and every later change leaves one audit event, which names device and sign-in", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      yield* phone.register()
      yield* phone.prefer(phone.device_id, everything)
      yield* Effect.replicateEffect(phone.revoke(phone.device_id), 2)
      const sql = yield* SqlClient.SqlClient
      const events = yield* sql<{ action: string; actor: string; device_id: string }>`
        select action, actor, subject ->> 'device_id' as device_id
          from audit_event
         where project_id = ${person.project_id}::uuid
           and action like 'mobile_device.%'
         order by at, event_id`
      assert.sameMembers(
        events.map(({ action }) => action),
        ["registered", "renewed", "preferences_set", "revoked"].map((change) => `mobile_device.${change}`)
      )
      for (const { actor, device_id } of events) {
        assert.match(actor, /^oauth_grant:/)
        assert.strictEqual(device_id, phone.device_id)
      }
      const other = yield* makeRegisteredPhone(on, person)
      const end = Context.get(on.services, Devices).end(other.device_id)
      yield* Effect.provideService(end, CurrentOperator, "operator:ada")
      const ended = yield* sql`
        select actor from audit_event
         where action = 'mobile_device.revoked' and subject ->> 'device_id' = ${other.device_id}`
      assert.deepStrictEqual(ended, [{ actor: "operator:ada" }])
      assert.deepInclude(yield* storedDevice(other.device_id), { state_reason: "revoked_by_operator" })
    })
  )

  it.effect("of the same installation by another person ends the first one's device", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      yield* notify(on, person.project_id)
      const next = yield* makePerson(on)
      const answer = yield* makePhone(on, next, phone.token).register()
      is(answer, 201)
      assert.notStrictEqual(answer.body.device_id, phone.device_id)
      assert.deepInclude(yield* storedDevice(phone.device_id), {
        state: "revoked",
        state_reason: "registered_by_another",
        secrets: 0
      })
      yield* drain(on.worker)
      assert.deepStrictEqual(
        (yield* deliveriesOf(phone.device_id)).map(({ state }) => state),
        ["suppressed"]
      )
      assert.isFalse(on.simulator.received.some(({ token }) => token === phone.token))
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(
        yield* sql`
          select project_id, actor
            from audit_event
           where action = 'mobile_device.handed_over'
             and subject ->> 'device_id' = ${phone.device_id}`,
        [{ project_id: person.project_id, actor: `mobile_device:${answer.body.device_id}` }]
      )
    })
  )

  it.effect("of the same installation rings at once, whatever the provider asked for before", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      on.simulator.next.push({ status: 429, reason: "TooManyRequests", retryAfter: 600 })
      yield* notify(on, person.project_id)
      yield* on.worker.round
      yield* phone.register()
      yield* notify(on, person.project_id)
      assert.strictEqual(yield* on.worker.round, 1)
    })
  )

  it.effect("with preferences releases what the earlier ones held back", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      const paused_until = new Date(
        (yield* Effect.clockWith((clock) => clock.currentTimeMillis)) + 60_000
      ).toISOString()
      yield* phone.register({ preferences: { ...everything, paused_until } })
      yield* notify(on, person.project_id)
      yield* drain(on.worker)
      assert.strictEqual((yield* phone.register({ preferences: everything })).body.preferences_version, 3)
      assert.strictEqual(yield* drain(on.worker), 1)
    })
  )

  it.effect("of the same installation for the other environment is a new device", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      const answer = yield* phone.register({ push: { environment: "development" } })
      is(answer, 201)
      assert.notStrictEqual(answer.body.device_id, phone.device_id)
    })
  )

  it.effect("with a repeated Idempotency-Key gets the earlier answer", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const phone = makePhone(on, yield* makePerson(on))
      const first = yield* phone.register({}, { key: "mobile-register-1" })
      const again = yield* phone.register({}, { key: "mobile-register-1" })
      assert.deepStrictEqual([again.status, again.text], [201, first.text])
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
    })
  )

  const changes: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    "push token": { push: { token: "ab".repeat(32) } },
    environment: { push: { environment: "development" } },
    topic: { push: { topic: "com.example.other" } },
    app_version: { app_version: "2.0" },
    os_version: { os_version: "20.0" },
    locale: { locale: "es" },
    preferences: { preferences: everything }
  }
  it.effect.each(Object.entries(changes))("with a repeated Idempotency-Key and another %s is refused", ([, change]) =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const phone = makePhone(on, yield* makePerson(on))
      yield* phone.register({}, { key: "mobile-register-1" })
      is(yield* phone.register(change, { key: "mobile-register-1" }), "idempotency_conflict")
    })
  )

  it.effect(
    "with a repeated Idempotency-Key gets the earlier answer, though the key that finds its token was replaced",
    () =>
      Effect.gen(function* () {
        const on = yield* Delivery
        const person = yield* makePerson(on)
        const { body, token } = makePhone(on, person)
        const first = yield* makePhone(on, person, token).register({}, { key: "mobile-register-1" })
        const replaced = yield* instance({
          SERVICE_APNS_TOPICS: body().push.topic,
          SERVICE_PUSH_LOOKUP_KEY: "a lookup key of the tests, long enough"
        })
        const again = yield* makePhone(replaced, person, token).register({}, { key: "mobile-register-1" })
        assert.deepStrictEqual([again.status, again.body.device_id], [201, first.body.device_id])
      })
  )

  it.effect("that is retried after sign-out does not register the device again", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const phone = makePhone(on, yield* makePerson(on))
      const { body } = yield* phone.register({}, { key: "mobile-register-1" })
      yield* phone.revoke(body.device_id)
      is(yield* phone.register({}, { key: "mobile-register-1" }), "device_revoked")
      is(yield* phone.register(), 201)
    })
  )

  it.effect("of a twenty-first device of one person is refused", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const person = yield* makePerson(on)
      const answers = yield* Effect.forEach(Array.from({ length: 24 }), () => makePhone(on, person).register(), {
        concurrency: 8
      })
      assert.strictEqual(answers.filter(({ status }) => status === 201).length, 20)
      assert.strictEqual(answers.filter(({ code }) => code === "device_limit_reached").length, 4)
    })
  )

  it.effect("of a fifty-first device of one project is refused, whoever has the others", () =>
    Effect.gen(function* () {
      const { on, person } = yield* withPhone
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into mobile_device
        select (jsonb_populate_record(d, jsonb_build_object(
                 'device_id', gen_random_uuid(), 'subject', gen_random_uuid(), 'token_lookup', sha256(int4send(n))))).*
          from mobile_device d
         cross join generate_series(1, 48) n
         where d.project_id = ${person.project_id}::uuid`
      is(yield* makePhone(on, person).register(), 201)
      is(yield* makePhone(on, person).register(), "device_limit_reached")
    })
  )

  it.effect("notifies the other devices of the same person, and nobody else's", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      const colleague = yield* makePerson(on, { project_id: person.project_id })
      const theirs = yield* makeRegisteredPhone(on, colleague)
      const second = yield* makeRegisteredPhone(on, person)
      assert.deepStrictEqual(
        (yield* deliveriesOf(phone.device_id))
          .map(({ kind }) => kind)
          .filter((kind) => kind !== "security.client_authorized"),
        ["security.device_added"]
      )
      assert.deepStrictEqual(yield* deliveriesOf(theirs.device_id), [])
      assert.deepStrictEqual(yield* deliveriesOf(second.device_id), [])
    })
  )

  const always = notificationKindNames.filter((name) => !notificationKinds[name].optional)
  it("has kinds that cannot be switched off", () => assert.include(always, "security.device_added"))

  const secret = Redacted.value(Tokens.format("sat", new Uint8Array(32).fill(7)))
  const nights = { enabled: true, start: "22:00", end: "07:00", time_zone: "Europe/Madrid", allow_urgent: true }
  const malformed: ReadonlyArray<
    readonly [what: string, body: Parameters<ReturnType<typeof makePhone>["body"]>[0], code?: string]
  > = [
    ["another platform", { platform: "android" }],
    ["another provider", { push: { provider: "fcm" } }],
    ["an unknown environment", { push: { environment: "staging" } }],
    ["a push token that is not hexadecimal", { push: { token: "xyz".repeat(22) } }],
    ["a push token with an odd number of digits", { push: { token: "a".repeat(65) } }],
    ["a push token that is too short", { push: { token: "ab".repeat(15) } }],
    ["a push token that is too long", { push: { token: "ab".repeat(129) } }],
    ["a topic that is not a bundle id", { push: { topic: "com.example\napp" } }],
    ["an unknown field", { push_to_talk: true }],
    ["an unknown field of push", { push: { badge: 1 } }],
    ["control characters", { app_version: "1.0\u0000" }],
    ["a credential in its app version", { app_version: secret }, "secret_detected"],
    ["a credential in its OS version", { os_version: `26.1 ${secret}` }, "secret_detected"],
    ["a malformed locale", { locale: "../../etc" }],
    ["preferences with an unknown kind", { preferences: { ...everything, kinds: { "task.deleted": true } } }],
    ...always.map((kind) =>
      [`preferences that switch off ${kind}`, { preferences: { ...everything, kinds: { [kind]: false } } }] as const),
    ["quiet hours without a time zone",
      { preferences: { ...everything, quiet_hours: { enabled: true, start: "22:00", end: "07:00", days: [] } } }],
    ["quiet hours with a day twice",
      { preferences: { ...everything, quiet_hours: { ...nights, days: ["mon", "mon"] } } }],
    ["a pause of more than thirty days", { preferences: { ...everything, paused_until: "2099-01-01T00:00:00Z" } }],
    ["such a pause and a credential",
      { app_version: secret, preferences: { ...everything, paused_until: "2099-01-01T00:00:00Z" } }],
    ["a pause until a time without a zone", { preferences: { ...everything, paused_until: "2020-01-01T00:00:00" } }],
    ["a pause until a day that does not exist", { preferences: { ...everything, paused_until: "2020-02-30T00:00:00Z" } }],
    ["a pause until something that is not an instant", { preferences: { ...everything, paused_until: "5" } }]
  ] // prettier-ignore
  for (const [what, given, code = "invalid_request"] of malformed) {
    it.effect(`with ${what} is refused and changes nothing`, () =>
      Effect.gen(function* () {
        const on = yield* Delivery
        const person = yield* makePerson(on)
        const answer = yield* makePhone(on, person).register(given)
        is(answer, code)
        assert.strictEqual(answer.status, code === "invalid_request" ? 400 : 422)
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select 1 from mobile_device where subject = ${person.subject}::uuid`, [])
      })
    )
  }
})

layer(Delivery.layer)("a service with APNs", (it) => {
  const delivering = Effect.gen(function* () {
    const on = yield* instance({
      SERVICE_APNS_TEAM_ID: "TEAM123456",
      SERVICE_APNS_KEY_ID: "KEY1234567",
      SERVICE_APNS_KEY_FILE: "only the worker reads it",
      SERVICE_APNS_TOPICS: "com.example.first,com.example.second",
      SERVICE_APNS_ENVIRONMENTS: "production"
    })
    return makePhone(on, yield* makePerson(on))
  })

  it.effect("refuses a registration for another environment", () =>
    Effect.gen(function* () {
      const phone = yield* delivering
      const push = { environment: "development", topic: "com.example.first" }
      is(yield* phone.register({ push }), "push_environment_not_allowed")
    })
  )

  it.effect("refuses a registration of another app", () =>
    Effect.gen(function* () {
      const phone = yield* delivering
      is(yield* phone.register(), "push_topic_not_allowed")
      is(yield* phone.register({ push: { topic: "com.example.second" } }), 201)
    })
  )

  it.effect("registers the first app when none is named", () =>
    Effect.gen(function* () {
      const phone = yield* delivering
      const answer = yield* phone.register({ push: { topic: undefined } })
      assert.strictEqual(answer.body.push.topic, "com.example.first", answer.text)
    })
  )
})

layer(Delivery.layer)("preferences", (it) => {
  it.effect("are replaced as a whole and get a new version", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      const preferences = { ...everything, kinds: { "bridge.enrolled": false }, minimum_priority: "high" }
      yield* TestClock.adjust("1 minute")
      const answer = yield* phone.prefer(phone.device_id, preferences)
      is(answer, 200)
      assert.deepStrictEqual(answer.body, { device_id: phone.device_id, preferences, version: 2 })
      assert.strictEqual(answer.headers.get("etag"), '"2"')
      const got = yield* phone.get(phone.device_id)
      assert.deepInclude(got.body, { preferences, preferences_version: 2 })
      assert.strictEqual(Date.parse(got.body.last_seen_at) - Date.parse(got.body.created_at), 60_000)
      assert.strictEqual(got.headers.get("etag"), '"2"')
    })
  )

  for (const [tag, outcome] of [
    ['"1"', 200],
    ["*", 200],
    ['"7", "1"', 200],
    ['"2"', "preferences_version_conflict"],
    ['W/"1"', "preferences_version_conflict"],
    ["1", "preferences_version_conflict"]
  ] as const) {
    it.effect(`with If-Match ${tag} at version 1: ${outcome}`, () =>
      Effect.gen(function* () {
        const { phone } = yield* withPhone
        const answer = yield* phone.prefer(phone.device_id, everything, { headers: { "if-match": tag } })
        is(answer, outcome)
        if (outcome !== 200) assert.strictEqual(answer.status, 412)
      })
    )
  }

  it.effect("of an ended device are refused", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      yield* phone.revoke(phone.device_id)
      is(yield* phone.prefer(phone.device_id, everything), "device_revoked")
    })
  )

  it.effect("may pause for exactly thirty days", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      for (const [millis, outcome] of [
        [30 * 86_400_000, 200],
        [30 * 86_400_000 + 1, "invalid_request"]
      ] as const) {
        const paused_until = new Date(now + millis).toISOString()
        is(yield* phone.prefer(phone.device_id, { ...everything, paused_until }), outcome)
      }
    })
  )

  it.effect("with a missing field are refused", () =>
    Effect.gen(function* () {
      const { phone } = yield* withPhone
      is(yield* phone.prefer(phone.device_id, { kinds: {} }), "invalid_request")
    })
  )
})

layer(Delivery.layer)("sign-out", (it) => {
  it.effect("deletes the push token, suppresses what waits, and may be repeated", () =>
    Effect.gen(function* () {
      const { on, person, phone } = yield* withPhone
      yield* notify(on, person.project_id)
      const first = yield* phone.revoke(phone.device_id)
      is(first, 200)
      assert.deepInclude(first.body, { device_id: phone.device_id, state: "revoked" })
      yield* TestClock.adjust("1 minute")
      const again = yield* phone.revoke(phone.device_id)
      assert.deepStrictEqual([again.status, again.text], [200, first.text])
      const stored = { state: "revoked", state_reason: "signed_out", secrets: 0 }
      assert.deepInclude(yield* storedDevice(phone.device_id), stored)
      assert.deepInclude((yield* deliveriesOf(phone.device_id))[0], { state: "suppressed" })
      const got = yield* phone.get(phone.device_id)
      assert.deepInclude(got.body, { state: "revoked" })
      assert.isNull(got.body.push.token_fingerprint)
    })
  )

  const ends = {
    "its grant is revoked": (on, { grant_id }) => Context.get(on.services, Grants).revoke(grant_id),
    "its project token is revoked": (on, { subject }) => Context.get(on.services, ProjectTokens).revoke(subject),
    "its client is disabled": (on, { client_id }) => Context.get(on.services, Clients).disable(client_id),
    "its project is disabled": (on, { project_id }) => Context.get(on.services, Projects).disable(project_id)
  } satisfies Record<string, (on: Delivery["Service"], who: Ids) => Effect.Effect<unknown, unknown>>
  for (const [what, end] of Object.entries(ends)) {
    it.effect(`is implied when ${what}: nothing more is sent`, () =>
      Effect.gen(function* () {
        const { on, person, phone } = yield* withPhone
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ readonly grant_id: string }>`
          select grant_id from mobile_device where device_id = ${phone.device_id}::uuid`
        yield* notify(on, person.project_id)
        yield* end(on, { ...person, ...row! })
        yield* drain(on.worker)
        assert.isFalse(on.simulator.received.some(({ token }) => token === phone.token))
        is(yield* phone.get(phone.device_id), "unauthorized")
      })
    )
  }
})

layer(Delivery.layer)("the mobile API", (it) => {
  const refused: Record<
    string,
    (on: Delivery["Service"]) => Effect.Effect<readonly [bearer: string | undefined, code: string], unknown>
  > = {
    "without a credential": () => Effect.succeed([undefined, "unauthorized"]),
    "with a token that was never issued": () =>
      Effect.succeed([`sat_${randomBytes(30).toString("hex")}`, "unauthorized"]),
    "with a token of a repository host": () => Effect.succeed([`ghp_${"a".repeat(36)}`, "unauthorized"]),
    "with a project token": (on) =>
      Effect.map(makePerson(on), ({ project_token }) => [Redacted.value(project_token), "unauthorized"]),
    "with an access token without mobile:devices": (on) =>
      Effect.gen(function* () {
        const { project_id } = yield* makePerson(on)
        const client_id = yield* makeApp(on, ["tasks:read"])
        const { token } = yield* makeSubject(on, project_id)
        const { access_token } = yield* signIn(on, { client_id, token })
        return [Redacted.value(access_token), "insufficient_scope"]
      })
  }
  for (const [what, credential] of Object.entries(refused)) {
    it.effect(`${what} answers every operation with the same refusal`, () =>
      Effect.gen(function* () {
        const { on, phone } = yield* withPhone
        const [bearer, code] = yield* credential(on)
        const asked = { bearer }
        const answers = [
          yield* phone.register({}, asked),
          yield* phone.get(phone.device_id, asked),
          yield* phone.prefer(phone.device_id, everything, asked),
          yield* phone.revoke(phone.device_id, asked)
        ]
        for (const answer of answers) is(answer, code)
        assert.strictEqual(new Set(answers.map(({ text }) => text)).size, 1)
        assert.match(answers[0]!.headers.get("www-authenticate")!, /^Bearer .*resource_metadata="/)
        assert.deepInclude(yield* storedDevice(phone.device_id), { state: "active" })
      })
    )
  }
})

interface Ids {
  readonly grant_id: string
  readonly subject: string
  readonly client_id: string
  readonly project_id: string
}

layer(Delivery.layer)("a phone's request is checked in order:", (it) => {
  it.effect("credential and scope come before key, media type, size and body", () =>
    Effect.gen(function* () {
      const on = yield* Delivery
      const { token: project } = yield* makeToken(on)
      const { access_token: agent } = yield* signInAgent(on)
      const { bearer: person } = yield* makePerson(on)
      const device = "/bridge/v1/mobile/devices"
      const faults: Readonly<Record<string, Ask>> = {
        "a body of another shape": { body: {} },
        "no JSON": { body: "{", headers: { "content-type": "application/json" } },
        "no UTF-8": { body: "\ufffd{", headers: { "content-type": "application/json" } },
        "another media type": { body: "x", headers: { "content-type": "text/plain" } },
        "a body over 16 KiB": { body: { x: "x".repeat(17_000) } },
        "a malformed key": { body: {}, key: "k".repeat(300) }
      }
      const targets = [
        ["POST", device],
        ["PUT", `${device}/7b8f1c1e-0f4e-4d0c-9a5e-111111111111/preferences`]
      ] as const
      for (const [name, fault] of Object.entries(faults)) {
        for (const [method, path] of targets) {
          const answered = (bearer: string | undefined) =>
            Effect.map(send(on.url + path, { method, bearer, ...fault }), ({ status }) => status)
          const statuses = yield* Effect.forEach([undefined, "x", project, agent, person], answered)
          assert.deepStrictEqual(statuses.slice(0, 4), [401, 401, 401, 403], name)
          assert.include([400, 413, 415], statuses[4], name)
        }
      }
    })
  )
})

/** One of eight processes: it grants an eighth of each rate, so 25 requests to an access token at once. */
const divided = { SERVICE_RATE_LIMITS: "on", SERVICE_APNS_TOPICS: "com.example.app", SERVICE_PROCESSES: "8" }

layer(Delivery.layer)("the phones of a project", (it) => {
  it.effect(
    "are changed 100 times at once and then ten times a minute, by one token half as often; reading is free",
    () =>
      Effect.gen(function* () {
        const on = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_APNS_TOPICS: "com.example.app" })
        const person = yield* makePerson(on)
        const colleague = makePerson(on, { project_id: person.project_id })
        const [one, other] = yield* Effect.forEach([person, yield* colleague], (who) =>
          Effect.gen(function* () {
            const phone = yield* makeRegisteredPhone(on, who)
            const answers = yield* Effect.replicateEffect(phone.prefer(phone.device_id, everything), 50)
            assert.deepStrictEqual(
              answers.map(({ status }) => status),
              [...Array.from({ length: 49 }, () => 200), 429]
            )
            assert.strictEqual(answers[49]!.headers.get("retry-after"), "12")
            return phone
          })
        )
        const third = makePhone(on, yield* colleague)
        const refused = yield* third.register()
        assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [429, "6"])
        assert.strictEqual((yield* one!.get(one!.device_id)).status, 200)
        assert.strictEqual((yield* makePhone(on, yield* makePerson(on)).register()).status, 201)
        yield* TestClock.adjust("6 seconds")
        assert.strictEqual((yield* other!.prefer(other!.device_id, everything)).status, 429)
        assert.strictEqual((yield* third.register()).status, 201)
      })
  )

  it.effect("lose no request by a change that is refused", () =>
    Effect.gen(function* () {
      const on = yield* instance(divided)
      const { bearer, client_id, refresh_token } = yield* makePerson(on)
      const changes = yield* Effect.replicateEffect(makePhone(on, { bearer }).prefer(randomUUID(), everything), 24)
      assert.lengthOf(
        changes.filter(({ status }) => status !== 429),
        6
      )
      const [again] = yield* refreshTimes(on, 1, { client_id, refresh_token: Redacted.value(refresh_token) })
      const reads = yield* Effect.replicateEffect(makePhone(on, { bearer: again! }).get(randomUUID()), 25)
      assert.deepStrictEqual([...new Set(reads.map(({ status }) => status))], [404])
    })
  )

  it.effect("are asked for 500 times at once by all processes together, whoever asks", () =>
    Effect.gen(function* () {
      const on = yield* instance(divided)
      const person = yield* makePerson(on)
      const { device_id } = yield* makeRegisteredPhone(on, person)
      const { project_id } = person
      const people = [person, ...(yield* Effect.replicateEffect(makePerson(on, { project_id }), 3))]
      const ask = (who: typeof person) => makePhone(on, who).get(device_id)
      const answers = yield* Effect.forEach(
        people.flatMap((who) => Array.from({ length: 16 }, () => who)),
        ask
      )
      const statuses = answers.map(({ status }) => status)
      assert.notInclude(statuses.slice(0, 60), 429)
      assert.strictEqual(statuses.at(-1), 429)
      assert.strictEqual((yield* ask(yield* makePerson(on))).status, 404)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* ask(person)).status, 200)
    })
  )

  it.effect("are asked for half as often by one project token, however many access tokens it has", () =>
    Effect.gen(function* () {
      const on = yield* instance(divided)
      const { client_id, project_id, refresh_token } = yield* makePerson(on)
      const accessTokens = yield* refreshTimes(on, 3, { client_id, refresh_token: Redacted.value(refresh_token) })
      const granted = (bearer: string) =>
        Effect.map(
          Effect.replicateEffect(makePhone(on, { bearer }).get(randomUUID()), 25),
          (answers) => answers.filter(({ status }) => status !== 429).length
        )
      assert.deepStrictEqual(yield* Effect.forEach(accessTokens, granted), [25, 6, 0])
      const colleague = yield* makePerson(on, { project_id })
      assert.strictEqual(yield* granted(colleague.bearer), 25)
    })
  )

  it.effect("are tested five times at once by all processes together, each phone by itself", () =>
    Effect.gen(function* () {
      // Each of two has half of that.
      const on = yield* instance({
        SERVICE_RATE_LIMITS: "on",
        SERVICE_APNS_TOPICS: "com.example.app",
        SERVICE_PROCESSES: "2"
      })
      const person = yield* makePerson(on)
      const [phone, other] = [yield* makeRegisteredPhone(on, person), yield* makeRegisteredPhone(on, person)]
      // Nobody delivers here, so they wait for their answers.
      const waiting: Array<Fiber.Fiber<Answer>> = []
      const tested = Effect.fnUntraced(function* ({ device_id, ring }: typeof phone, times: number) {
        for (let n = 0; n < times; n++) waiting.push(yield* Effect.forkChild(ring(device_id)))
        const sent = Effect.map(
          deliveriesOf(device_id),
          (all) => all.filter(({ kind }) => kind === "device.test").length
        )
        assert.strictEqual(yield* Effect.repeat(sent, { until: (count) => count === times, times: 2000 }), times)
      })
      yield* tested(phone, 2)
      is(yield* phone.ring(phone.device_id), "rate_limited")
      yield* tested(other, 1)
      const passing = Effect.forever(Effect.andThen(deliveriesOf(phone.device_id), TestClock.adjust("200 millis")))
      const answers = yield* Effect.raceFirst(Effect.forEach(waiting, Fiber.join), passing)
      for (const answer of answers) is(answer, 200)
    })
  )
})
