/** What the client makes of answers that this service does not give: of another server, a proxy, or a service in trouble. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Option, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { setImmediate } from "node:timers/promises"
import { discover } from "../../src/client/AuthorizationServer.ts"
import { Client, pauses } from "../../src/client/bridge/Client.ts"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { BaseUrl } from "../../src/client/bridge/State.ts"
import { refuse } from "../../src/wire/bridges/RotationApi.ts"

/** Answers one after another; the last one stays. `asked` gets how each request follows redirects. */
const answering = (answers: ReadonlyArray<() => Response>, asked: Array<RequestInit> = []) =>
  HttpClient.make((request) =>
    Effect.map(Effect.serviceOption(FetchHttpClient.RequestInit), (init) => {
      asked.push(Option.getOrElse(init, () => ({})))
      return HttpClientResponse.fromWeb(request, answers[Math.min(asked.length, answers.length) - 1]!())
    })
  )

describe("a request of the reference Bridge", () => {
  const selfAt = (http: HttpClient.HttpClient) =>
    Effect.gen(function* () {
      const keys = yield* generateKeyPair
      const client = Client.layer.pipe(
        Layer.provide(Layer.succeed(HttpClient.HttpClient, http)),
        Layer.provide(Layer.mock(Journal, { keys: Effect.succeed(keys) }))
      )
      return yield* Effect.flatMap(Client, ({ self }) => self("https://bridge.example", Redacted.make("sbt_x"))).pipe(
        Effect.provide(client),
        Effect.flip
      )
    })

  it.effect.each([408, 429, 500, 502])(
    "is repeated for half a minute after %i, which no part of the service sent",
    (status) =>
      Effect.gen(function* () {
        const asked: Array<RequestInit> = []
        const failing = yield* Effect.forkChild(selfAt(answering([() => new Response("busy", { status })], asked)))
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
      yield* selfAt(answering([() => new Response("gone", { status: 404 })], asked))
      assert.deepStrictEqual(asked, [{ redirect: "error" }])
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

describe("an authorization server", () => {
  const resource = "https://bridge.example/mcp"
  const issuer = "https://auth.example"
  const described = { resource, authorization_servers: [issuer] }
  const server = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    code_challenge_methods_supported: ["S256"]
  }
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
