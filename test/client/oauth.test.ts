/** The OAuth client of src/client against the authorization server (spec 4.13). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { Access } from "../../src/signin/access/Access.ts"
import { credentialOf } from "../../src/platform/edge/BearerCredential.ts"
import * as OAuthClient from "../../src/client/OAuthClient.ts"
import { Browser, callback, makeClient, makeToken, reachable } from "../support/agents/Agent.ts"
import { Service } from "../support/service/Service.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const Reachable = Layer.merge(Layer.effect(Service, reachable()), FetchHttpClient.layer).pipe(
  Layer.provideMerge(TestDatabase.sql)
)

/** A client whose person allows the sign-in; `alter` changes the callback address on its way. */
const make = Effect.fnUntraced(function* (alter: (back: URL) => void = () => undefined, decision?: "deny") {
  const service = yield* Service
  const { token } = yield* makeToken(service)
  const stored: { tokens: Option.Option<OAuthClient.Tokens>; saved: number } = { tokens: Option.none(), saved: 0 }
  const client = yield* OAuthClient.make<never>({
    resource: `${service.url}/mcp`,
    client_id: yield* makeClient(service),
    redirect_uri: callback,
    scopes: ["tasks:write"],
    leeway: Duration.seconds(30),
    browser: (url) =>
      Effect.map(new Browser(service.url).consent(url.search.slice(1), token, decision), (answer) => {
        const back = new URL(answer.headers.get("location")!)
        alter(back)
        return back
      }),
    storage: {
      load: Effect.sync(() => stored.tokens),
      save: (tokens) =>
        Effect.sync(() => {
          stored.tokens = tokens
          stored.saved++
        })
    }
  })
  return { client, stored, service }
})

const isAccepted = Effect.fnUntraced(function* (token: Redacted.Redacted<string>) {
  const access = Context.get((yield* Service).services, Access)
  return (yield* Effect.exit(access.authorize(credentialOf(`Bearer ${Redacted.value(token)}`))))._tag === "Success"
})

layer(Reachable)("the OAuth client", (it) => {
  it.effect("signs in and has a token that the service accepts", () =>
    Effect.gen(function* () {
      const { client } = yield* make()
      const { scope } = yield* client.signIn
      assert.strictEqual(scope, "tasks:read tasks:write")
      assert.isTrue(yield* isAccepted(yield* client.accessToken))
    })
  )

  it.effect("shares one refresh among concurrent callers", () =>
    Effect.gen(function* () {
      const { client, stored } = yield* make()
      yield* client.signIn
      const first = yield* client.accessToken
      yield* TestClock.adjust(Duration.minutes(59.6))
      const tokens = yield* Effect.all(
        Array.from({ length: 20 }, () => client.accessToken),
        { concurrency: 20 }
      )
      assert.strictEqual(new Set(tokens.map(Redacted.value)).size, 1)
      assert.notStrictEqual(Redacted.value(tokens[0]!), Redacted.value(first))
      assert.strictEqual(stored.saved, 2)
    })
  )

  it.effect("signs out at the server and locally", () =>
    Effect.gen(function* () {
      const { client, stored } = yield* make()
      yield* client.signIn
      const token = yield* client.accessToken
      const before = stored.tokens
      yield* client.signOut
      assert.isFalse(yield* isAccepted(token))
      // The grant has ended, and not only its access token.
      stored.tokens = before
      yield* TestClock.adjust(Duration.hours(1))
      assert.strictEqual((yield* Effect.flip(client.accessToken))._tag, "SignInRequired")
      assert.isTrue(Option.isNone(stored.tokens))
      assert.strictEqual((yield* Effect.flip(client.accessToken))._tag, "SignInRequired")
    })
  )

  it.effect("requires a new sign-in when the grant has expired, and deletes its tokens", () =>
    Effect.gen(function* () {
      const { client, stored } = yield* make()
      yield* client.signIn
      yield* TestClock.adjust(Duration.days(31))
      assert.strictEqual((yield* Effect.flip(client.accessToken))._tag, "SignInRequired")
      assert.isTrue(Option.isNone(stored.tokens))
    })
  )

  const forged: ReadonlyArray<readonly [string, (back: URL) => void]> = [
    ["another state", (back) => back.searchParams.set("state", "x")],
    ["two states", (back) => back.searchParams.append("state", "x")],
    ["another issuer", (back) => back.searchParams.set("iss", "https://evil.test")],
    ["no issuer", (back) => back.searchParams.delete("iss")],
    ["two codes", (back) => back.searchParams.append("code", "x")],
    ["no code", (back) => back.searchParams.delete("code")]
  ]
  it.effect.each(forged)("rejects a callback with %s", ([, alter]) =>
    Effect.gen(function* () {
      const { client, stored } = yield* make(alter)
      assert.strictEqual((yield* Effect.flip(client.signIn))._tag, "OAuthMismatch")
      assert.strictEqual(stored.saved, 0)
    })
  )

  it.effect("fails with access_denied when the person denies", () =>
    Effect.gen(function* () {
      const { client } = yield* make(undefined, "deny")
      const refused = yield* Effect.flip(client.signIn)
      assert.strictEqual(refused._tag === "OAuthRefused" ? refused.code : refused._tag, "access_denied")
    })
  )

  it.effect("rejects a server whose metadata names another address", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const client = yield* OAuthClient.make<never>({
        resource: `${url.replace("127.0.0.1", "localhost")}/mcp`,
        client_id: "x",
        redirect_uri: callback,
        scopes: [],
        leeway: Duration.seconds(30),
        browser: () => Effect.die("no browser is opened"),
        storage: { load: Effect.succeedNone, save: () => Effect.void }
      })
      assert.strictEqual((yield* Effect.flip(client.signIn))._tag, "OAuthMismatch")
    })
  )
})
