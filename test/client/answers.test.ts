/** What the client makes of answers that this service does not give: of another server, a proxy, or a service in trouble. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Layer, Option, Random, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { setImmediate } from "node:timers/promises"
import { vi } from "vitest"
import * as AccessToken from "../../src/client/bridge/accessToken.ts"
import { discover } from "../../src/client/AuthorizationServer.ts"
import { Bridge } from "../../src/client/bridge/Bridge.ts"
import { Client, pauses } from "../../src/client/bridge/Client.ts"
import * as Companion from "../../src/client/Companion.ts"
import { check } from "../../src/client/connect/check.ts"
import { fingerprint, generateKeyPair } from "../../src/client/Crypto.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import * as OAuthClient from "../../src/client/OAuthClient.ts"
import { BaseUrl, type Enrolled, lifetimeOf } from "../../src/client/bridge/State.ts"
import { refuse, type Self } from "../../src/wire/bridges/RotationApi.ts"

/** Answers one after another; the last one stays. `asked` gets how each request follows redirects. */
const answering = (answers: ReadonlyArray<() => Response>, asked: Array<RequestInit> = []) =>
  HttpClient.make((request) =>
    Effect.map(Effect.serviceOption(FetchHttpClient.RequestInit), (init) => {
      asked.push(Option.getOrElse(init, () => ({})))
      return HttpClientResponse.fromWeb(request, answers[Math.min(asked.length, answers.length) - 1]!())
    })
  )

/** Never answers; `asked` gets the requests. */
const silent = (asked: Array<HttpClientRequest.HttpClientRequest> = []) =>
  HttpClient.make((request) =>
    Effect.andThen(
      Effect.sync(() => asked.push(request)),
      Effect.never
    )
  )

/** The same number again and again, from 0 to 1. */
const always = (share: number) =>
  Effect.provideService(Random.Random, { nextIntUnsafe: () => share, nextDoubleUnsafe: () => share })

const itself: typeof Self.Encoded = {
  project_id: randomUUID(),
  bridge_id: "b",
  device_id: "d",
  display_name: "n",
  account_references: [],
  scope: "bridge:transport",
  token_id: randomUUID(),
  expires_at: "2026-11-27T12:00:00Z",
  pending_rotation: null
}

/** Lets fork and network go on, which ignore TestClock. */
const wink = TestClock.withLive(Effect.sleep("1 millis"))

describe("a request of the reference Bridge", () => {
  const selfAt = (http: HttpClient.HttpClient) =>
    Effect.gen(function* () {
      const keys = yield* generateKeyPair
      const client = Client.layer.pipe(
        Layer.provide(Layer.succeed(HttpClient.HttpClient, http)),
        Layer.provide(Layer.mock(Journal, { keys: Effect.succeed(keys) }))
      )
      return yield* Effect.flatMap(Client, ({ self }) => self("https://bridge.example", Redacted.make("sbt_x"))).pipe(
        Effect.provide(client)
      )
    })

  it.effect.each([408, 429, 500, 502])(
    "is repeated for half a minute after %i, which no part of the service sent",
    (status) =>
      Effect.gen(function* () {
        const asked: Array<RequestInit> = []
        const busy = answering([() => new Response("busy", { status })], asked)
        const failing = yield* Effect.forkChild(Effect.flip(selfAt(busy)))
        // Between two pauses the request is signed, which takes real time.
        while (failing.pollUnsafe() === undefined) {
          yield* TestClock.adjust("10 seconds")
          yield* Effect.promise(() => setImmediate())
        }
        assert.strictEqual((yield* Fiber.join(failing))._tag, "ServiceUnreachable")
        assert.isAbove(asked.length, 1)
      })
  )

  it.effect("is not repeated after any other answer, and follows no redirect with its credential", () =>
    Effect.gen(function* () {
      const asked: Array<RequestInit> = []
      yield* Effect.flip(selfAt(answering([() => new Response("gone", { status: 404 })], asked)))
      assert.deepStrictEqual(asked, [{ redirect: "error" }])
    })
  )

  it.effect("is dated by its answer, or by this machine's clock if the answer has no Date", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(5000)
      const answered = (headers: Record<string, string>) =>
        Effect.map(selfAt(answering([() => Response.json(itself, { headers })])), ({ at }) => at.getTime())
      assert.strictEqual(yield* answered({ date: "Thu, 26 Nov 2026 12:00:00 GMT" }), Date.UTC(2026, 10, 26, 12))
      assert.strictEqual(yield* answered({}), 5000)
    })
  )

  it.effect("has ten seconds for its answer", () =>
    Effect.gen(function* () {
      const asked: Array<HttpClientRequest.HttpClientRequest> = []
      yield* Effect.forkChild(always(0)(selfAt(silent(asked))))
      yield* Effect.repeat(wink, { until: () => asked.length === 1 })
      yield* TestClock.adjust("9999 millis")
      yield* wink
      assert.strictEqual(asked.length, 1)
      yield* TestClock.adjust("1 millis")
      // It is signed once more.
      yield* Effect.repeat(wink, { until: () => asked.length === 2, times: 1000 })
      assert.strictEqual(asked.length, 2)
    })
  )

  it.effect("is repeated after a part of a pause that doubles, from 200 ms to 20 s", () =>
    Effect.gen(function* () {
      const tries: Array<number> = []
      const failing = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        tries.push(now / 1000)
        return Effect.fail("no answer")
      })
      yield* Effect.forkChild(always(0.5)(Effect.retry(failing, pauses(Duration.infinity))))
      yield* TestClock.adjust("50 seconds")
      assert.deepStrictEqual(tries, [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 22.7, 32.7, 42.7])
    })
  )

  it.effect("waits as long as Retry-After says, but no longer than ten minutes", () =>
    Effect.gen(function* () {
      let tries = 0
      const failing = Effect.suspend(() => {
        tries++
        return Effect.fail(refuse("rate_limited", 86_400))
      })
      const fiber = yield* Effect.forkChild(Effect.retry(failing, pauses(Duration.infinity)))
      yield* TestClock.adjust("599 seconds")
      assert.strictEqual(tries, 1)
      yield* TestClock.adjust("21 seconds")
      assert.strictEqual(tries, 2)
      yield* Fiber.interrupt(fiber)
    })
  )
})

const resource = "https://bridge.example/mcp"
const issuer = "https://auth.example"
const described = { resource, authorization_servers: [issuer] }
const server = {
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  revocation_endpoint: `${issuer}/revoke`,
  code_challenge_methods_supported: ["S256"]
}
const json =
  (body: object, status = 200) =>
  () =>
    Response.json(body, { status })
const discovered = [json(described), json(server)]
const granted = json({ access_token: "new", token_type: "DPoP", expires_in: 100 })

describe("an authorization server", () => {
  const found = (first: object, second: object) =>
    discover(answering([first, second].map((body) => () => Response.json(body))), resource)

  it.effect("is found by the metadata of its resource", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* found(described, server), server)
    })
  )

  it.effect.each([
    ["describes another resource", { ...described, resource: "https://bridge.example/other" }, server],
    ["has another issuer", described, { ...server, issuer: `${issuer}/` }],
    ["lacks S256", described, { ...server, code_challenge_methods_supported: ["plain"] }]
  ] as const)("is not used if its metadata %s", ([, first, second]) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(found(first, second)))._tag, "OAuthMismatch")
    })
  )
})

const kept: OAuthClient.Tokens = {
  access_token: Redacted.make("old"),
  refresh_token: Redacted.make("refresh"),
  scope: "a",
  token_type: "Bearer",
  expires_at: 0
}

describe("a sign-in", () => {
  /** A client with tokens, whose authorization server answers so. */
  const signedIn = Effect.fnUntraced(function* (answers: ReadonlyArray<() => Response>, tokens = kept) {
    const asked: Array<RequestInit> = []
    const store = { tokens: Option.some(tokens) }
    const client = yield* OAuthClient.make<never>({
      resource,
      client_id: "c",
      redirect_uri: "http://127.0.0.1/callback",
      scopes: ["a", "b"],
      browser: () => Effect.die("no browser"),
      storage: {
        load: Effect.sync(() => store.tokens),
        save: (next) => Effect.sync(() => void (store.tokens = next))
      },
      leeway: Duration.minutes(1)
    }).pipe(Effect.provideService(HttpClient.HttpClient, answering(answers, asked)))
    return { asked, client, store }
  })

  it.effect.each([
    [400, { error: "invalid_grant" }, "SignInRequired", false],
    [401, { error: "invalid_client" }, "SignInRequired", false],
    [400, { error: "invalid_request" }, "OAuthRefused", true],
    [429, { error: "temporarily_unavailable" }, "OAuthUnreachable", true],
    [500, { error: "invalid_grant" }, "OAuthUnreachable", true],
    [400, { nothing: "known" }, "OAuthUnreachable", true],
    [200, { access_token: "" }, "OAuthUnreachable", true]
  ] as const)("refreshed with %i and %j fails with %s and is kept: %s", ([status, body, tag, isKept]) =>
    Effect.gen(function* () {
      const { client, store } = yield* signedIn([...discovered, json(body, status)])
      assert.strictEqual((yield* Effect.flip(client.accessToken))._tag, tag)
      assert.strictEqual(Option.isSome(store.tokens), isKept)
    })
  )

  it.effect("is refreshed a minute before its end, and keeps what the answer says and implies", () =>
    Effect.gen(function* () {
      const early = yield* signedIn([...discovered, granted], { ...kept, expires_at: 60_001 })
      assert.strictEqual(Redacted.value(yield* early.client.accessToken), "old")
      assert.deepStrictEqual(early.asked, [])
      const { client, store } = yield* signedIn([...discovered, granted], { ...kept, expires_at: 60_000 })
      assert.strictEqual(Redacted.value(yield* client.accessToken), "new")
      // Nothing binds it, because the client has no key.
      const implied = { refresh_token: undefined, scope: "a b", token_type: "Bearer", expires_at: 100_000 } as const
      assert.deepInclude(Option.getOrThrow(store.tokens), implied)
      yield* TestClock.adjust("40 seconds")
      assert.strictEqual((yield* Effect.flip(client.accessToken))._tag, "SignInRequired")
    })
  )

  it.effect("ends here although its server cannot be asked to end it", () =>
    Effect.gen(function* () {
      const { client, store } = yield* signedIn([json({}, 500)])
      yield* client.signOut
      assert.isTrue(Option.isNone(store.tokens))
    })
  )
})

describe("the access token of a Bridge", () => {
  const identity = { project_id: randomUUID(), bridge_id: "b", device_id: "d", display_name: "n" }
  const state = { base_url: "https://bridge.example", identity } as Enrolled

  /** Of a Bridge that is replacing its key, and keeps no token. */
  const asking = Effect.fnUntraced(function* (http: HttpClient.HttpClient) {
    const [keys, next] = [yield* generateKeyPair, yield* generateKeyPair]
    const saved: Array<string> = []
    const journal = {
      keys: Effect.succeed(keys),
      keyRotation: Effect.succeed({ keys: next }),
      access: Effect.undefined,
      keepAccess: (access: { readonly public_key_fingerprint: string }) =>
        Effect.sync(() => saved.push(access.public_key_fingerprint))
    } as unknown as Journal["Service"]
    const { token } = yield* Effect.provideService(AccessToken.make(journal), HttpClient.HttpClient, http)
    return { next: fingerprint(next.publicKey), saved, token: token(state) }
  })
  const refused = (code: string) => json({ error: code }, 401)

  it.effect("is asked for with the next key if the service does not know this one, and no redirect is followed", () =>
    Effect.gen(function* () {
      const asked: Array<RequestInit> = []
      const answers = [...discovered, refused("invalid_client"), ...discovered, granted]
      const { next, saved, token } = yield* asking(answering(answers, asked))
      assert.strictEqual(Redacted.value(yield* token), "new")
      assert.deepStrictEqual(saved, [next])
      assert.deepStrictEqual(
        asked,
        answers.map(() => ({ redirect: "error" }))
      )
    })
  )

  it.effect("is asked for once if the service refuses for another reason", () =>
    Effect.gen(function* () {
      const asked: Array<RequestInit> = []
      const { token } = yield* asking(answering([...discovered, refused("invalid_grant"), granted], asked))
      assert.strictEqual((yield* Effect.flip(token))._tag, "OAuthRefused")
      assert.strictEqual(asked.length, 3)
    })
  )

  it.effect("has nine seconds", () =>
    Effect.gen(function* () {
      const { token } = yield* asking(silent())
      const failing = yield* Effect.forkChild(Effect.flip(token))
      yield* TestClock.adjust("8999 millis")
      assert.isUndefined(failing.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(failing))._tag, "OAuthUnreachable")
    })
  )
})

describe("what a Bridge says of itself", () => {
  it.effect("goes by the service's clock, and is asked for with the next key once that counts", () =>
    Effect.gen(function* () {
      const next = yield* generateKeyPair
      const at = new Date("2026-11-25T12:00:00Z")
      const after = (millis: number) => new Date(at.getTime() + millis)
      const body = { bridge_id: "b", expires_at: after(90_500), key: { since: after(1 - 2 * 86_400_000) } }
      const tried: Array<unknown> = []
      const self = (_: string, __: unknown, keys?: unknown) =>
        Effect.suspend(() => {
          tried.push(keys)
          return keys === undefined
            ? Effect.fail(refuse("bridge_proof_of_possession_invalid"))
            : Effect.succeed({ at, body })
        })
      const token = { access_token: Redacted.make("sbt_x"), lifetime_seconds: 100 }
      const state = { base_url: "https://bridge.example", token, rotation: null }
      const journal = { read: Effect.succeed(state), keyRotation: Effect.succeed({ keys: next }) }
      const status = yield* Effect.flatMap(Bridge, ({ status }) => status).pipe(
        Effect.provide(
          Bridge.layer.pipe(
            Layer.provide(Layer.mock(Client, { self } as never)),
            Layer.provide(Layer.mock(Journal, journal as never))
          )
        )
      )
      const expected = { bridge_id: "b", seconds_left: 90, journal: "key", key_age_days: 1 } as const
      assert.deepInclude(status, expected)
      assert.deepStrictEqual(tried, [undefined, next])
    })
  )
})

describe("the companion", () => {
  const device_id = randomUUID()
  const made = Effect.fnUntraced(function* (http: HttpClient.HttpClient) {
    const tokens = { ...kept, expires_at: Infinity }
    const store = { stored: { ...Companion.nothing, tokens, device: { device_id, version: 1 } } as Companion.Stored }
    const companion = yield* Companion.make<never>({
      base_url: "https://bridge.example",
      client_id: "c",
      redirect_uri: "app://callback",
      environment: "development",
      app_version: "1",
      keys: Effect.die("no key"),
      browser: () => Effect.die("no browser"),
      store: { load: Effect.sync(() => store.stored), save: (next) => Effect.sync(() => void (store.stored = next)) }
    }).pipe(Effect.provideService(HttpClient.HttpClient, http))
    return { companion, store }
  })

  it.effect("gives up a request after ten seconds, and repeats a registration with its key", () =>
    Effect.gen(function* () {
      const asked: Array<HttpClientRequest.HttpClientRequest> = []
      const { companion, store } = yield* made(silent(asked))
      for (let n = 0; n < 2; n++) {
        const failing = yield* Effect.forkChild(Effect.flip(companion.register(Redacted.make("00".repeat(32)))))
        yield* TestClock.adjust("9999 millis")
        assert.isUndefined(failing.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        assert.strictEqual((yield* Fiber.join(failing))._tag, "ServiceUnreachable")
      }
      const { registration } = store.stored
      assert.deepStrictEqual(
        asked.map(({ headers }) => headers["idempotency-key"]),
        [registration, registration]
      )
    })
  )

  it.effect("replaces a token that is refused before its end, and tries once more", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const answers: Readonly<Record<string, () => Response>> = {
        "/.well-known/oauth-protected-resource/mcp": json(described),
        "/.well-known/oauth-authorization-server": json(server),
        "/token": granted
      }
      const unauthorized = () =>
        Response.json(
          { error: { code: "unauthorized", message: "" } },
          { status: 401, headers: { "cache-control": "no-store" } }
        )
      const http = HttpClient.make((request) =>
        Effect.sync(() => {
          const { pathname } = new URL(request.url)
          asked.push(pathname)
          return HttpClientResponse.fromWeb(request, (answers[pathname] ?? unauthorized)())
        })
      )
      const { companion, store } = yield* made(http)
      assert.strictEqual((yield* Effect.flip(companion.preferences))._tag, "unauthorized")
      const device = `/bridge/v1/mobile/devices/${device_id}`
      assert.deepStrictEqual(asked, [device, ...Object.keys(answers), device])
      assert.strictEqual(Redacted.value(store.stored.tokens!.access_token), "new")
    })
  )
})

describe("a connection that is tried", () => {
  type Answers = Readonly<Record<string, (init: RequestInit) => Response>>

  const named = "https://bridge.example/.well-known/oauth-protected-resource/mcp"
  const metadata = `${issuer}/.well-known/oauth-authorization-server`
  const status = (code: number, challenge?: string) => () =>
    new Response("", { status: code, ...(challenge !== undefined && { headers: { "www-authenticate": challenge } }) })
  const unauthorized = status(401, `Bearer realm="x", resource_metadata="${named}"`)
  /** The metadata of the resource, and the one of its authorization server. */
  const signsIn = (more: object): Answers => ({
    [resource]: unauthorized,
    [named]: json(described),
    [metadata]: json({ ...server, ...more })
  })
  const tools = json({ result: { tools: [{ name: "a" }, { name: "b" }] } })
  const events = () => new Response(`event: message\ndata: ${JSON.stringify({ result: { tools: [] } })}\n\n`)
  const lost = (cause: Error) => () => {
    throw cause
  }
  const refused = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) })

  /** The last finding. */
  const tried = Effect.fnUntraced(function* (answers: Answers, token?: string) {
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      assert.strictEqual(init.redirect, "manual")
      return (answers[url] ?? lost(refused))(init)
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllGlobals()))
    const found = yield* check(resource, token === undefined ? undefined : Redacted.make(token))
    assert.isTrue(found.slice(0, -1).every(({ ok }) => ok))
    return found.at(-1)!
  })

  it.effect.each([
    ["reach", `Nothing answers at ${resource} (ECONNREFUSED): start`, {}],
    ["reach", "did not answer within 5 s", { [resource]: lost(new DOMException("", "TimeoutError")) }],
    ["reach", "answered 429: try again", { [resource]: status(429) }],
    ["reach", "answered 500: try again", { [resource]: status(500) }],
    ["reach", "answered 404, so it is not this service", { [resource]: status(404) }],
    ["reach", "answered 200, so it is not this service", { [resource]: status(200) }],
    ["metadata", "names no metadata: a proxy may remove", { [resource]: status(401) }],
    ["metadata", "names no metadata", { [resource]: status(401, 'Bearer resource_metadata="x"') }],
    ["metadata", `${named} is not readable`, { [resource]: unauthorized }],
    [
      "metadata",
      "https://other.example/mcp is the address of the service",
      { [resource]: unauthorized, [named]: json({ ...described, resource: "https://other.example/mcp" }) }
    ],
    [
      "metadata",
      "names no valid authorization server",
      { [resource]: unauthorized, [named]: json({ resource, authorization_servers: ["x"] }) }
    ],
    [
      "metadata",
      `The metadata of ${issuer} is not readable`,
      { ...signsIn({}), [metadata]: json({ ...server, registration_endpoint: `${issuer}/register` }, 404) }
    ],
    ["sign-in", "Clients cannot register themselves here", signsIn({})],
    ["sign-in", "Clients cannot register themselves here", signsIn({ client_id_metadata_document_supported: false })]
  ] as const)("without a token ends at %s: %s", ([step, message, answers]) =>
    Effect.gen(function* () {
      const found = yield* tried(answers)
      assert.deepInclude(found, { step, ok: false })
      assert.include(found.message, message)
    })
  )

  it.effect.each([
    ["Clients can register themselves.", signsIn({ registration_endpoint: `${issuer}/register` })],
    [
      "Clients whose metadata documents the operator allows can sign in.",
      signsIn({ client_id_metadata_document_supported: true })
    ],
    [
      "Clients can register themselves.",
      {
        [resource]: unauthorized,
        [named]: json({ resource, authorization_servers: [`${issuer}/realm`] }),
        [`${metadata}/realm`]: json({ ...server, registration_endpoint: `${issuer}/register` })
      }
    ]
  ] as const)("without a token may find: %s", ([message, answers]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* tried(answers), { step: "sign-in", ok: true, message })
    })
  )

  /** What the second call, of tools/list, gets. */
  const thenTools = (answer: () => Response): Answers => ({
    [resource]: ({ body, headers }) => {
      assert.strictEqual((headers as Record<string, string>)["authorization"], "Bearer t")
      return JSON.parse(body as string).method === "initialize" ? status(200)() : answer()
    }
  })

  it.effect.each([
    ["token", false, "The service refuses the token", { [resource]: unauthorized }],
    ["reach", false, "answered 403, so it is not this service", { [resource]: status(403) }],
    ["tools", false, "tools/list answered 503: try again", thenTools(status(503))],
    ["tools", false, "tools/list answered nothing: try again", thenTools(lost(refused))],
    ["tools", true, "The client sees 2 tools.", thenTools(tools)],
    ["tools", true, "The client sees 0 tools.", thenTools(events)]
  ] as const)("with a token ends at %s, good or not: %s; %s", ([step, ok, message, answers]) =>
    Effect.gen(function* () {
      const found = yield* tried(answers, "t")
      assert.deepInclude(found, { step, ok })
      assert.include(found.message, message)
    })
  )
})

describe("the lifetime of a token", () => {
  it("is in whole seconds from the answer to its end, at least one", () => {
    const seconds = (millis: number) =>
      lifetimeOf({ at: new Date(5000), body: { expires_at: new Date(5000 + millis) } })
    assert.deepStrictEqual([-1000, 0, 1999, 2000, 86_400_000].map(seconds), [1, 1, 1, 2, 86_400])
  })
})

describe("the address of a service", () => {
  const is = Schema.is(BaseUrl)
  it("is an origin with https, or with http on this machine", () => {
    for (const url of ["https://bridge.example", "http://localhost:8787", "http://127.0.0.1:8787", "http://[::1]:8787"])
      assert.isTrue(is(url), url)
    for (const url of [
      "http://bridge.example",
      "http://127.0.0.1.example",
      "https://bridge.example/path",
      "https://user@bridge.example",
      "bridge.example"
    ])
      assert.isFalse(is(url), url)
  })
})
