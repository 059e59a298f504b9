/** The companion without its screen against the service (spec 4.13). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Inspectable, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import * as Companion from "../../src/client/Companion.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { initialPreferences } from "../../src/wire/mobile/Notifications.ts"
import { Browser, makeToken, reachable } from "../support/agents/Agent.ts"
import { relay } from "../support/network/Relay.ts"
import { Service } from "../support/service/Service.ts"
import { makeApp, redirectUri } from "../support/agents/SignIn.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"

const Reachable = Layer.merge(Layer.effect(Service, reachable()), FetchHttpClient.layer).pipe(
  Layer.provideMerge(TestDatabase.sql)
)

const anotherToken = () => Redacted.make(randomBytes(32).toString("hex"))

const make = Effect.fnUntraced(function* (turn: (back: URL) => void = () => undefined) {
  const service = yield* Service
  const { token } = yield* makeToken(service)
  const store = { kept: Companion.nothing, saved: [] as Array<Companion.Stored> }
  const companion = yield* Companion.make<never>({
    base_url: service.url,
    client_id: yield* makeApp(service as never),
    redirect_uri: redirectUri,
    environment: "development",
    app_version: "1.0.0",
    browser: (url) =>
      Effect.map(new Browser(service.url).consent(url.search.slice(1), token), (answer) => {
        const back = new URL(answer.headers.get("location")!)
        turn(back)
        return back
      }),
    store: {
      load: Effect.sync(() => store.kept),
      save: (kept) =>
        Effect.sync(() => {
          store.kept = kept
          store.saved.push(kept)
        })
    }
  })
  const pushToken = anotherToken()
  return { companion, pushToken, service, store }
})

const registered = Effect.gen(function* () {
  const given = yield* make()
  yield* given.companion.signIn
  yield* given.companion.register(given.pushToken)
  return given
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
      assert.deepStrictEqual(store.kept, Companion.nothing)
    })
  )

  it.effect("refuses a callback whose state is another's, and asks for no token", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* make((back) => back.searchParams.set("state", "another"))
      assert.strictEqual((yield* Effect.flip(companion.signIn))._tag, "OAuthMismatch")
      assert.deepStrictEqual(store.saved, [])
    })
  )

  it.effect("keeps the refreshed tokens before it uses them, whatever else is written meanwhile", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* registered
      const before = store.kept.tokens!
      yield* TestClock.adjust("13 minutes")
      yield* Effect.all(
        [companion.register(pushToken), companion.preferences, companion.setPreferences(initialPreferences)],
        { concurrency: 3 }
      )
      const after = store.kept.tokens!
      assert.notStrictEqual(Redacted.value(after.refresh_token!), Redacted.value(before.refresh_token!))
      yield* TestClock.adjust("13 minutes")
      yield* companion.preferences
    })
  )

  it.effect("sets preferences at the version it has read, and is told when somebody else was faster", () =>
    Effect.gen(function* () {
      const { companion, store } = yield* registered
      yield* companion.setPreferences({ ...initialPreferences, minimum_priority: "high" })
      assert.strictEqual((yield* companion.preferences).minimum_priority, "high")
      store.kept = { ...store.kept, device: { ...store.kept.device!, version: 1 } }
      const late = yield* Effect.flip(companion.setPreferences(initialPreferences))
      assert.strictEqual(late._tag, "preferences_version_conflict")
    })
  )

  it.effect(
    "takes its preferences along when the system hands out another push token, and ends the device before",
    () =>
      Effect.gen(function* () {
        const { companion, store } = yield* registered
        const wanted = { ...initialPreferences, minimum_priority: "high" as const }
        yield* companion.setPreferences(wanted)
        const before = store.kept.device!.device_id
        assert.deepStrictEqual(yield* companion.register(anotherToken()), wanted)
        assert.deepStrictEqual(yield* companion.preferences, wanted)
        const sql = yield* SqlClient.SqlClient
        const after = store.kept.device!.device_id
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

  it.effect("registers another push token although a registration of the one before has had no answer", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* make()
      yield* companion.signIn
      const signedIn = store.kept
      yield* companion.register(pushToken)
      const key = store.saved.map(({ registration }) => registration).find((kept) => kept !== undefined)!
      store.kept = { ...signedIn, registration: key }
      yield* companion.register(anotherToken())
      assert.strictEqual(yield* companion.state, "registered")
    })
  )

  it.effect("forgets nothing and does nothing else while the server cannot be told of a sign-out", () =>
    Effect.gen(function* () {
      const { pushToken, service, store } = yield* registered
      const line = yield* relay({ host: "127.0.0.1", port: Number(new URL(service.url).port) })
      const far = yield* Companion.make<never>({
        base_url: `http://127.0.0.1:${line.port}`,
        client_id: "unused",
        redirect_uri: redirectUri,
        environment: "development",
        app_version: "1.0.0",
        browser: () => Effect.die("no browser"),
        store: { load: Effect.sync(() => store.kept), save: (kept) => Effect.sync(() => void (store.kept = kept)) }
      })
      const { device, tokens } = store.kept
      yield* line.cut
      assert.strictEqual((yield* Effect.flip(far.signOut))._tag, "ServiceUnreachable")
      assert.strictEqual(yield* far.state, "signing_out")
      assert.deepStrictEqual([store.kept.device, store.kept.tokens], [device, tokens])
      assert.strictEqual((yield* Effect.flip(far.register(pushToken)))._tag, "SigningOut")
      yield* line.heal
      yield* far.signOut
      assert.deepStrictEqual(store.kept, Companion.nothing)
    })
  )

  it.effect("signs out although its grant was revoked meanwhile", () =>
    Effect.gen(function* () {
      const { companion, service, store } = yield* registered
      const grants = Context.get(service.services, Grants)
      const sql = yield* SqlClient.SqlClient
      const [device] = yield* sql<{ readonly grant_id: string }>`
        select grant_id from mobile_device where device_id = ${store.kept.device!.device_id}::uuid`
      yield* grants.revoke(device!.grant_id)
      yield* companion.signOut
      assert.deepStrictEqual(store.kept, Companion.nothing)
    })
  )

  it.effect("shows no token and no header, however it is printed", () =>
    Effect.gen(function* () {
      const { companion, pushToken, store } = yield* registered
      const { access_token, refresh_token } = store.kept.tokens!
      const shown = [
        ...(yield* companion.screen),
        JSON.stringify(store.saved),
        String(pushToken),
        Inspectable.toStringUnknown(store.kept),
        JSON.stringify(yield* companion.preferences)
      ].join("\n")
      for (const secret of [access_token, refresh_token!, pushToken]) assert.notInclude(shown, Redacted.value(secret))
      assert.notMatch(shown, /authorization|bearer/i)
    })
  )
})
