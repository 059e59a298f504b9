/** Error answers do not reveal why a token is invalid (spec 5.3), and use only the characters of RFC 6749 5.2. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as FastCheck from "fast-check"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { type TokenKind, mint } from "../../../src/platform/crypto/Tokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import {
  answerOf,
  authorizeQuery,
  callback,
  exchange,
  makeClient,
  makeToken,
  obtainCode,
  post,
  refresh,
  signIn
} from "../../support/agents/Agent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { forAll } from "../../support/run/Property.ts"
import { unchanged } from "../../support/database/Rows.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { firstPage } from "../../support/database/Page.ts"

/** The answer, without the headers that differ between any two answers. */
const comparable = ({ headers, status, text }: Answer) => ({
  status,
  headers: [...headers].filter(([name]) => name !== "date" && name !== "x-request-id"),
  text
})

const fresh = (kind: TokenKind) => Effect.map(mint(kind), Redacted.value)

/** The token with one wrong character. */
const mistyped = (token: string) => `${token.slice(0, 20)}${token[20] === "x" ? "y" : "x"}${token.slice(21)}`

/** Sign-ins that have ended, each in a different way, and one that is still good. */
class SignIns extends Context.Service<SignIns, Effect.Success<typeof signIns>>()("test/SignIns") {
  static readonly layer = Layer.effect(
    SignIns,
    Effect.suspend(() => signIns)
  ).pipe(Layer.provideMerge(Service.layer))
}

const signIns = Effect.gen(function* () {
  const service = yield* Service
  const { services, url } = service
  const expired = yield* signIn(service)
  yield* TestClock.adjust(Duration.days(30))
  const made = Effect.gen(function* () {
    const { project_id, token, token_id } = yield* makeToken(service)
    const signedIn = yield* signIn(service, { token })
    const [grant] = yield* Context.get(services, Grants).list(project_id, firstPage)
    return { ...signedIn, project_id, token_id, grant_id: grant!.grant_id }
  })
  const thenEnd = <A, E>(end: (one: Effect.Success<typeof made>) => Effect.Effect<A, E>) => Effect.tap(made, end)
  const copied = thenEnd(({ client_id, refresh_token }) =>
    Effect.gen(function* () {
      const { body } = yield* refresh(service, { client_id, refresh_token })
      yield* refresh(service, { client_id, refresh_token: body.refresh_token })
      yield* refresh(service, { client_id, refresh_token })
    })
  )
  return {
    good: yield* made,
    ended: {
      expired,
      copied: yield* copied,
      "revoked by its client": yield* thenEnd(({ client_id, refresh_token }) =>
        post(`${url}/revoke`, { client_id, token: refresh_token })
      ),
      "revoked by the operator": yield* thenEnd(({ grant_id }) => Context.get(services, Grants).revoke(grant_id)),
      "of a revoked project token": yield* thenEnd(({ token_id }) =>
        Context.get(services, ProjectTokens).revoke(token_id)
      ),
      "of a disabled project": yield* thenEnd(({ project_id }) => Context.get(services, Projects).disable(project_id)),
      "for another base URL": yield* signIn(yield* instance({ SERVICE_BASE_URL: "http://127.0.0.1:9999" })),
      "for another instance": yield* signIn(yield* instance({ SERVICE_INSTANCE_ID: "another" }))
    }
  }
})

layer(SignIns.layer, { timeout: "60 seconds" })("the same answer", (it) => {
  it.effect("for every invalid access token, at /mcp and at the mobile API", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { ended, good } = yield* SignIns
      const disabled = yield* signIn(service)
      yield* Context.get(service.services, Clients).disable(disabled.client_id)
      const revoked = yield* signIn(service)
      yield* post(`${service.url}/revoke`, { client_id: revoked.client_id, token: revoked.access_token })
      const bad = {
        ...Object.fromEntries(Object.entries(ended).map(([why, { access_token }]) => [why, access_token])),
        "of a disabled client": disabled.access_token,
        revoked: revoked.access_token,
        unknown: yield* fresh("sat"),
        mistyped: mistyped(good.access_token),
        "cut off": good.access_token.slice(0, -1),
        "a refresh token": good.refresh_token,
        "a Bridge token": yield* (yield* Bridge.make(service)).enroll(service),
        "a token of a repository host": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "not a token at all": `${good.access_token},${good.access_token}`
      }
      const endpoints = {
        "/mcp": (bearer: string) =>
          send(`${service.url}/mcp`, {
            bearer,
            headers: { accept: "application/json, text/event-stream" },
            body: { jsonrpc: "2.0", id: 1, method: "tools/list" }
          }),
        "/bridge/v1/mobile": (bearer: string) =>
          send(`${service.url}/bridge/v1/mobile/devices/00000000-0000-4000-8000-000000000000`, {
            method: "GET",
            bearer
          })
      }
      for (const [endpoint, request] of Object.entries(endpoints)) {
        assert.notStrictEqual((yield* request(good.access_token)).status, 401, endpoint)
        const first = comparable(yield* request(bad.unknown))
        assert.strictEqual(first.status, 401)
        for (const [why, token] of Object.entries(bad))
          assert.deepStrictEqual(comparable(yield* request(token)), first, `${endpoint}, ${why}`)
      }
    })
  )

  it.effect("for every invalid refresh token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { ended, good } = yield* SignIns
      const own = { client_id: good.client_id }
      const bad = {
        ...ended,
        unknown: { ...own, refresh_token: yield* fresh("srt") },
        mistyped: { ...own, refresh_token: mistyped(good.refresh_token) },
        "cut off": { ...own, refresh_token: good.refresh_token.slice(0, -1) },
        "of another client": { client_id: yield* makeClient(service), refresh_token: good.refresh_token },
        "an access token": { ...own, refresh_token: good.access_token },
        "not a token at all": { ...own, refresh_token: "x" }
      }
      const first = comparable(yield* refresh(service, bad.unknown))
      assert.deepEqual([first.status, JSON.parse(first.text).error], [400, "invalid_grant"])
      for (const [why, { client_id, refresh_token }] of Object.entries(bad))
        assert.deepStrictEqual(comparable(yield* refresh(service, { client_id, refresh_token })), first, why)
      assert.strictEqual((yield* refresh(service, { ...own, refresh_token: good.refresh_token })).status, 200)
    })
  )

  it.effect("for every invalid code", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const late = yield* obtainCode(service)
      yield* TestClock.adjust(Duration.minutes(1))
      const good = yield* obtainCode(service)
      const used = yield* obtainCode(service)
      const ask = ({ client_id, code, redirect_uri, verifier }: typeof good & { readonly redirect_uri?: string }) =>
        exchange(service, { client_id, code, code_verifier: verifier, redirect_uri })
      yield* ask(used)
      const elsewhere = yield* instance({ SERVICE_BASE_URL: "http://127.0.0.1:9999" })
      const bad: Record<string, Parameters<typeof ask>[0]> = {
        late,
        used,
        "for another base URL": yield* obtainCode(elsewhere),
        unknown: { ...good, code: yield* fresh("sac") },
        mistyped: { ...good, code: mistyped(good.code) },
        "of another client": { ...good, client_id: yield* makeClient(service) },
        "with another verifier": { ...good, verifier: "x".repeat(43) },
        "for another address": { ...good, redirect_uri: "https://other.test/" },
        "not a token at all": { ...good, code: "x" }
      }
      const first = comparable(yield* ask(bad["unknown"]!))
      assert.strictEqual(first.status, 400)
      for (const [why, asked] of Object.entries(bad)) assert.deepStrictEqual(comparable(yield* ask(asked)), first, why)
      assert.strictEqual((yield* ask(good)).status, 200)
    }).pipe(Effect.scoped)
  )
})

const formHeaders = { "content-type": "application/x-www-form-urlencoded" }
const withRegistration = instance({ SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })

layer(Service.layer, { timeout: "60 seconds" })("whatever is sent", (it) => {
  const hostile = FastCheck.oneof(
    FastCheck.string({ unit: "binary", maxLength: 200 }),
    FastCheck.string({ unit: "grapheme", maxLength: 60 }),
    FastCheck.constantFrom(
      "",
      "\0",
      '"',
      "\\",
      "\u007f",
      "é",
      "\r\nset-cookie: a=b",
      "%",
      "__proto__",
      "x".repeat(9000)
    )
  )
  const fields = (good: Readonly<Record<string, string>>) =>
    FastCheck.tuple(
      FastCheck.subarray(Object.keys(good)),
      FastCheck.dictionary(FastCheck.oneof(FastCheck.constantFrom(...Object.keys(good)), hostile), hostile, {
        maxKeys: 3
      }),
      FastCheck.subarray(Object.keys(good), { maxLength: 1 })
    ).map(([kept, spoiled, twice]) => {
      const given = { ...Object.fromEntries(kept.map((name) => [name, good[name]!])), ...spoiled }
      const form = new URLSearchParams(given)
      for (const name of twice) form.append(name, "again")
      return form
    })

  const numRuns = 100

  const characters = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/
  const assertPlain = (error: string | undefined, description: string | undefined, sent: unknown) => {
    assert.match(error ?? "", /^[a-z_]+$/, String(sent))
    assert.match(description ?? "", characters, String(sent))
  }

  it.effect("to /token, /revoke and /register changes nothing, and errors use only the allowed characters", () =>
    Effect.gen(function* () {
      const { services, url } = yield* withRegistration
      const client_id = yield* makeClient({ services, url })
      const code_verifier = "x".repeat(43)
      const good = {
        client_id,
        code_verifier,
        code: "sac_x",
        refresh_token: "srt_x",
        scope: "tasks:read",
        token: "spt_"
      }
      const asked = FastCheck.tuple(
        FastCheck.constantFrom("/token", "/token", "/revoke", "/register"),
        FastCheck.constantFrom("authorization_code", "refresh_token", "client_credentials", ""),
        fields({ ...good, resource: "http://127.0.0.1:8787/mcp", redirect_uri: callback })
      )
      const ask = (path: string, form: URLSearchParams) => {
        if (path !== "/register") return send(`${url}${path}`, { headers: formHeaders, body: form.toString() })
        const redirect_uris = form.getAll("redirect_uri").filter((uri) => uri !== callback)
        return send(`${url}${path}`, { body: { ...Object.fromEntries(form), redirect_uris } })
      }
      const check = ([path, grant_type, form]: readonly [string, string, URLSearchParams]) => {
        form.append("grant_type", grant_type)
        return Effect.map(ask(path, form), (answer) => {
          if (answer.status === 200 && path === "/revoke") return
          assert.include([400, 401, 413], answer.status, answer.text)
          assertPlain(answer.body.error, answer.body.error_description, form)
        })
      }
      yield* unchanged(forAll(asked, check, { numRuns }))
    }).pipe(Effect.scoped)
  )

  it.effect("to /authorize is answered by the consent page, another page or a plain error to the client", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service)
      const good = Object.fromEntries(new URLSearchParams(authorizeQuery({ client_id, scope: "tasks:read" })))
      const asked = fields(good).map((query) => {
        // Without a client_id no error is ever returned to the client.
        if (!query.has("client_id")) query.set("client_id", client_id)
        return query
      })
      const check = (query: URLSearchParams) =>
        Effect.map(send(`${service.url}/authorize?${query}`, { method: "GET" }), (answer) => {
          // 431 (RFC 6585): the request line is too long to be read.
          assert.include([303, 400, 431], answer.status, answer.text)
          const location = answer.headers.get("location")
          if (location === null || location.startsWith("/oauth/consent?")) return
          assert.isTrue(location.startsWith(`${callback}?error=`), location)
          assertPlain(answerOf(answer)["error"], answerOf(answer)["error_description"], query)
        })
      yield* forAll(asked, check, { numRuns })
    })
  )
})
