/** Browsers as devices (spec 2.9, 4.12): registration by the API, with the keys of web push. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { WebPushKeys } from "../../../src/push/tokens/WebPushKeys.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { send } from "../../support/network/Http.ts"
import { makeSubscription } from "../../support/phones/Browser.ts"
import { everything, makePhone } from "../../support/phones/Phone.ts"
import { allRows } from "../../support/database/Rows.ts"
import { Service } from "../../support/service/Service.ts"

const keyOf = (on: { readonly url: string }) =>
  Effect.map(
    send(`${on.url}/bridge/v1/mobile/web-push-key`, { method: "GET" }),
    ({ body }) => body.public_key as string
  )

const withBrowser = Effect.gen(function* () {
  const on = yield* Service
  const person = yield* makePerson(on)
  const subscription = yield* Effect.promise(() => makeSubscription())
  const register = (push: object = {}, by = person) =>
    makePhone(on, by).register({}, { body: { platform: "web", push: { ...subscription.push, ...push }, locale: "de" } })
  return { on, person, subscription, register, phone: makePhone(on, person) }
})

layer(Service.layer)("a browser", (it) => {
  it.effect("is registered as a device that names its push service and no secret", () =>
    Effect.gen(function* () {
      const { register, subscription } = yield* withBrowser
      const answer = yield* register()
      assert.strictEqual(answer.status, 201, answer.text)
      const { platform, push, state } = answer.body
      assert.deepStrictEqual([platform, state], ["web", "active"])
      assert.match(push.token_fingerprint, /^[0-9a-f]{4}$/)
      assert.deepStrictEqual(push, {
        provider: "webpush",
        endpoint_host: "fcm.googleapis.com",
        token_fingerprint: push.token_fingerprint
      })
      const kept = JSON.stringify(yield* allRows)
      const { endpoint, keys } = subscription.push
      for (const secret of [endpoint, endpoint.slice(-30), keys.auth, keys.p256dh]) {
        assert.isFalse(answer.text.includes(secret))
        assert.isFalse(kept.includes(secret), "in the database")
      }
    })
  )

  it.effect("that registers again is the same device, also with other keys", () =>
    Effect.gen(function* () {
      const { person, phone, register } = yield* withBrowser
      const first = yield* register()
      const other = yield* Effect.promise(() => makeSubscription())
      const again = yield* register({ keys: other.push.keys }, person)
      assert.deepStrictEqual([again.status, again.body.device_id], [200, first.body.device_id])
      const preferred = yield* phone.prefer(first.body.device_id, everything)
      assert.strictEqual(preferred.status, 200, preferred.text)
      assert.strictEqual((yield* phone.get(first.body.device_id)).body.platform, "web")
      assert.strictEqual((yield* phone.revoke(first.body.device_id)).body.state, "revoked")
      assert.isNull((yield* phone.get(first.body.device_id)).body.push.token_fingerprint)
    })
  )

  it.effect("that another person registers changes hands", () =>
    Effect.gen(function* () {
      const { on, phone, register } = yield* withBrowser
      const first = yield* register()
      const another = yield* makePerson(on)
      assert.strictEqual((yield* register({}, another)).status, 201)
      assert.strictEqual((yield* phone.get(first.body.device_id)).body.state, "revoked")
    })
  )

  const refused: ReadonlyArray<readonly [string, object, string]> = [
    ["at a host that is no push service", { endpoint: "https://push.example.com/send/1" }, "push_endpoint_not_allowed"],
    [
      "at a host that ends like one",
      { endpoint: "https://notify.windows.com.evil.example/1" },
      "push_endpoint_not_allowed"
    ],
    ["at an address", { endpoint: "https://169.254.169.254/latest" }, "push_endpoint_not_allowed"],
    ["with a user in the address", { endpoint: "https://a@fcm.googleapis.com/1" }, "push_endpoint_not_allowed"],
    ["with a fragment", { endpoint: "https://fcm.googleapis.com/1#2" }, "push_endpoint_not_allowed"],
    ["without https", { endpoint: "http://fcm.googleapis.com/1" }, "invalid_request"],
    ["with an endless address", { endpoint: `https://fcm.googleapis.com/${"a".repeat(2050)}` }, "invalid_request"],
    [
      "with a key beside the curve",
      { keys: { p256dh: `B${"A".repeat(86)}`, auth: "A".repeat(22) } },
      "invalid_request"
    ],
    ["with a short secret", { keys: { p256dh: `B${"A".repeat(86)}`, auth: "AAAA" } }, "invalid_request"],
    ["for another service's key", { public_key: `B${"B".repeat(86)}` }, "push_key_unknown"],
    ["with the fields of an app", { provider: "apns" }, "invalid_request"]
  ]
  for (const [what, push, code] of refused) {
    it.effect(`${what} is refused and changes nothing`, () =>
      Effect.gen(function* () {
        const { person, register } = yield* withBrowser
        const answer = yield* register(push)
        assert.deepStrictEqual([answer.status, answer.code], [400, code], answer.text)
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(
          yield* sql`select device_id from mobile_device where project_id = ${person.project_id}::uuid`,
          []
        )
      })
    )
  }

  it.effect("on ios, or an app on the web, is refused", () =>
    Effect.gen(function* () {
      const { phone, subscription } = yield* withBrowser
      for (const body of [
        { platform: "ios", push: subscription.push },
        { ...phone.body(), platform: "web" }
      ]) {
        assert.strictEqual((yield* phone.register({}, { body })).code, "invalid_request")
      }
    })
  )
})

layer(Service.layer)("the key of web push", (it) => {
  it.effect("is public, one and the same, and a point of P-256", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const asked = yield* Effect.all(
        Array.from({ length: 8 }, () => keyOf(on)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(asked).size, 1)
      assert.lengthOf(Buffer.from(asked[0]!, "base64url"), 65)
    })
  )

  it.effect("is kept for earlier subscriptions when it is rotated, and its private part is nowhere", () =>
    Effect.gen(function* () {
      const { on, register } = yield* withBrowser
      const keys = Context.get(on.services, WebPushKeys)
      const former = yield* keyOf(on)
      const first = yield* register()
      const { public_key } = yield* keys.rotate(randomUUID())
      assert.notStrictEqual(public_key, former)
      assert.strictEqual(yield* keyOf(on), public_key)
      const late = yield* Effect.promise(() => makeSubscription())
      assert.strictEqual((yield* register({ ...late.push, public_key: former })).status, 201)
      assert.strictEqual((yield* register()).body.device_id, first.body.device_id)
      const listed = (yield* keys.list).map((key) => [
        key.public_key,
        key.usable,
        key.subscriptions,
        key.replaced_at === null
      ])
      assert.deepStrictEqual(listed, [
        [public_key, true, 1, true],
        [former, true, 1, false]
      ])
      const signing = Option.getOrThrow(yield* keys.signing(former))
      const { d } = signing.privateKey.export({ format: "jwk" })
      const kept = JSON.stringify(yield* allRows)
      for (const encoding of ["base64", "base64url", "hex"] as const) {
        assert.isFalse(kept.includes(Buffer.from(d!, "base64url").toString(encoding)))
      }
    })
  )

  it.effect("of two rotations at once is one", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const keys = Context.get(on.services, WebPushKeys)
      const both = [keys.rotate(randomUUID()), keys.rotate(randomUUID())]
      yield* Effect.all([...both, keys.current], { concurrency: "unbounded" })
      assert.lengthOf(
        (yield* keys.list).filter(({ replaced_at }) => replaced_at === null),
        1
      )
    })
  )

  it.effect("is rotated once by a command that is repeated with its id, even after the next one", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const sql = yield* SqlClient.SqlClient
      const keys = Context.get(on.services, WebPushKeys)
      const counted = sql`
        select (select count(*)::int from web_push_key) as keys,
               (select count(*)::int from audit_event where action = 'push.web_push_key_rotated') as events`
      const id = randomUUID()
      const first = yield* keys.rotate(id)
      const next = yield* keys.rotate(randomUUID())
      const before = yield* counted
      assert.deepStrictEqual(yield* keys.rotate(id), first)
      assert.deepStrictEqual(yield* counted, before)
      assert.deepStrictEqual(yield* keys.current, next)
    })
  )
})
