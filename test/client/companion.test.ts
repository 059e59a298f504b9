/** The phone companion against the service (spec 4.13). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Inspectable, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { send } from "../support/network/Http.ts"
import * as Companion from "../../src/client/Companion.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { initialPreferences } from "../../src/wire/mobile/Notifications.ts"
import { Browser, makeToken, reachable } from "../support/agents/Agent.ts"
import { relay } from "../support/network/Relay.ts"
import { Service } from "../support/service/Service.ts"
import { makeApp, redirectUri } from "../support/people/SignIn.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const Reachable = Layer.merge(Layer.effect(Service, reachable()), FetchHttpClient.layer).pipe(
  Layer.provideMerge(TestDatabase.sql)
)

const newPushToken = () => Redacted.make(randomBytes(32).toString("hex"))

const make = Effect.fnUntraced(function* (alter: (back: URL) => void = () => undefined) {
  const service = yield* Service
  const { token } = yield* makeToken(service)
  const client_id = yield* makeApp(service as never)
  const store = { stored: Companion.nothing, saved: [] as Array<Companion.Stored> }
  const folder = mkdtempSync(join(tmpdir(), "bridge-service-test-"))
  yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
  const keys = Effect.orDie(keysOf(folder))
  const companion = yield* Companion.make<never>({
    base_url: service.url,
    client_id,
    redirect_uri: redirectUri,
    environment: "development",
    app_version: "1.0.0",
    keys,
    browser: (url) =>
      Effect.map(new Browser(service.url).consent(url.search.slice(1), token), (answer) => {
        const back = new URL(answer.headers.get("location")!)
        alter(back)
        return back
      }),
    store: {
      load: Effect.sync(() => store.stored),
      save: (next) =>
        Effect.sync(() => {
          store.stored = next
          store.saved.push(next)
        })
    }
  })
  const pushToken = newPushToken()
  return { client_id, companion, keys, pushToken, service, store }
})

/** The key in a file of its own, as an app keeps it in the device's key store. */
const keysOf = (folder: string) =>
  Effect.flatMap(Journal, ({ keys }) => keys).pipe(Effect.provide(Journal.layerReading(folder)))

const registered = Effect.gen(function* () {
  const made = yield* make()
  yield* made.companion.signIn
  yield* made.companion.register(made.pushToken)
  return made
})

layer(Reachable)("the companion", (it) => {
  it.effect("goes from signed out to registered and back", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* make()
      const states = [yield* companion.state]
      yield* companion.signIn
      states.push(yield* companion.state)
      yield* companion.register(pushToken)
      states.push(yield* companion.state)
      yield* companion.signOut
      states.push(yield* companion.state)
      assert.deepStrictEqual(states, ["signed_out", "signed_in", "registered", "signed_out"])
      assert.deepStrictEqual(store.stored, Companion.nothing)
    })
  )

  it.effect("has tokens that work with its key only", () =>
    Effect.gen(function* () {
      const { client_id, companion, pushToken, service, store } = yield* registered
      const { access_token, refresh_token, token_type } = store.stored.tokens!
      assert.strictEqual(token_type, "DPoP")
      const sql = yield* SqlClient.SqlClient
      const [{ dpop_jkt } = { dpop_jkt: undefined }] = yield* sql<{ readonly dpop_jkt: Uint8Array | null }>`
        select dpop_jkt from oauth_access_token where token_hash = ${sha256(Redacted.value(access_token))}`
      assert.strictEqual(dpop_jkt?.length, 32)
      const device = `${service.url}/bridge/v1/mobile/devices/${store.stored.device!.device_id}`
      const stolen = yield* send(device, { method: "GET", bearer: Redacted.value(access_token) })
      assert.strictEqual(stolen.status, 401)
      // A copy of the store without the key.
      let copy = store.stored
      const thief = yield* Companion.make<never>({
        base_url: service.url,
        client_id,
        redirect_uri: redirectUri,
        environment: "development",
        app_version: "1.0.0",
        keys: yield* Effect.cached(generateKeyPair),
        browser: () => Effect.die("no browser"),
        store: { load: Effect.sync(() => copy), save: (next) => Effect.sync(() => void (copy = next)) }
      })
      assert.strictEqual((yield* Effect.flip(thief.preferences))._tag, "SignInRequired")
      assert.strictEqual(Redacted.value(store.stored.tokens!.refresh_token!), Redacted.value(refresh_token!))
      yield* companion.register(pushToken)
    })
  )

  it.effect("rejects a callback with another state and requests no token", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* make((back) => back.searchParams.set("state", "another"))
      assert.strictEqual((yield* Effect.flip(companion.signIn))._tag, "OAuthMismatch")
      assert.deepStrictEqual(store.saved, [])
    })
  )

  it.effect("stores refreshed tokens before it uses them, also beside concurrent writes", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* registered
      const before = store.stored.tokens!
      yield* TestClock.adjust("13 minutes")
      yield* Effect.all(
        [companion.register(pushToken), companion.preferences, companion.setPreferences(initialPreferences)],
        { concurrency: 3 }
      )
      const after = store.stored.tokens!
      assert.notStrictEqual(Redacted.value(after.refresh_token!), Redacted.value(before.refresh_token!))
      yield* TestClock.adjust("13 minutes")
      yield* companion.preferences
    })
  )

  it.effect("sets preferences at the version that it read, and fails if they changed since", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* registered
      yield* companion.setPreferences({ ...initialPreferences, minimum_priority: "high" })
      assert.strictEqual((yield* companion.preferences).minimum_priority, "high")
      store.stored = { ...store.stored, device: { ...store.stored.device!, version: 1 } }
      const late = yield* Effect.flip(companion.setPreferences(initialPreferences))
      assert.strictEqual(late._tag, "preferences_version_conflict")
    })
  )

  it.effect("moves its preferences to a new push token and revokes the old device", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* registered
      const wanted = { ...initialPreferences, minimum_priority: "high" as const }
      yield* companion.setPreferences(wanted)
      const before = store.stored.device!.device_id
      assert.deepStrictEqual(yield* companion.register(newPushToken()), wanted)
      assert.deepStrictEqual(yield* companion.preferences, wanted)
      const sql = yield* SqlClient.SqlClient
      const after = store.stored.device!.device_id
      assert.deepStrictEqual(
        yield* sql`
          select device_id, state
            from mobile_device
           where device_id in ${sql.in([before, after])}
           order by state`,
        [
          { device_id: after, state: "active" },
          { device_id: before, state: "revoked" }
        ]
      )
    })
  )

  it.effect("registers a new push token although a registration of the old one got no answer", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* make()
      yield* companion.signIn
      const signedIn = store.stored
      yield* companion.register(pushToken)
      const key = store.saved
        .map(({ registration }) => registration)
        .find((registration) => registration !== undefined)!
      store.stored = { ...signedIn, registration: key }
      yield* companion.register(newPushToken())
      assert.strictEqual(yield* companion.state, "registered")
    })
  )

  it.effect("deletes nothing and does nothing else while a sign-out cannot reach the server", () =>
    Effect.gen(function* () {
      const { keys, pushToken, service, store } = yield* registered
      const connection = yield* relay({ host: "127.0.0.1", port: Number(new URL(service.url).port) })
      const remote = yield* Companion.make<never>({
        base_url: `http://127.0.0.1:${connection.port}`,
        client_id: "unused",
        redirect_uri: redirectUri,
        environment: "development",
        app_version: "1.0.0",
        keys,
        browser: () => Effect.die("no browser"),
        store: { load: Effect.sync(() => store.stored), save: (next) => Effect.sync(() => void (store.stored = next)) }
      })
      const { device, tokens } = store.stored
      yield* connection.cut
      assert.strictEqual((yield* Effect.flip(remote.signOut))._tag, "ServiceUnreachable")
      assert.strictEqual(yield* remote.state, "signing_out")
      assert.deepStrictEqual([store.stored.device, store.stored.tokens], [device, tokens])
      assert.strictEqual((yield* Effect.flip(remote.register(pushToken)))._tag, "SigningOut")
      yield* connection.heal
      yield* remote.signOut
      assert.deepStrictEqual(store.stored, Companion.nothing)
    })
  )

  it.effect("signs out although its grant was revoked before", () =>
    Effect.gen(function* () {
      const { companion, service, store } = yield* registered
      const grants = Context.get(service.services, Grants)
      const sql = yield* SqlClient.SqlClient
      const [device] = yield* sql<{ readonly grant_id: string }>`
        select grant_id from mobile_device where device_id = ${store.stored.device!.device_id}::uuid`
      yield* grants.revoke(device!.grant_id)
      yield* companion.signOut
      assert.deepStrictEqual(store.stored, Companion.nothing)
    })
  )

  it.effect("signs out although its device is not there any more", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* registered
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from mobile_device where device_id = ${store.stored.device!.device_id}::uuid`
      yield* companion.signOut
      assert.deepStrictEqual(store.stored, Companion.nothing)
    })
  )

  it.effect("shows no token and no header in any printed form", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* registered
      const { access_token, refresh_token } = store.stored.tokens!
      const shown = [
        ...(yield* companion.screen),
        JSON.stringify(store.saved),
        String(pushToken),
        Inspectable.toStringUnknown(store.stored),
        JSON.stringify(yield* companion.preferences)
      ].join("\n")
      for (const secret of [access_token, refresh_token!, pushToken]) assert.notInclude(shown, Redacted.value(secret))
      assert.notMatch(shown, /authorization|bearer/i)
    })
  )
})
