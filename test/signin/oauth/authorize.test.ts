/** /authorize and the consent pages, as a browser sees them (spec 4.10, 4.13; OAuth 2.1 "Authorization Endpoint"). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import {
  answerOf,
  authorizeQuery,
  Browser,
  callback,
  exchange,
  hiddenFields,
  makeClient,
  makeToken,
  obtainCode,
  pkce,
  post,
  resource
} from "../../support/agents/Agent.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { firstPage } from "../../support/database/Page.ts"
import { instance, Service } from "../../support/service/Service.ts"

const iss = "http://127.0.0.1:8787"

const register = ({ services }: Service["Service"], redirect_uri = "http://localhost/callback") =>
  Effect.map(
    Context.get(services, Clients).register({ client_name: "<b>Mallory</b>\u202e", redirect_uris: [redirect_uri] }),
    ({ client_id }) => client_id
  )

layer(Service.layer)("an authorization request", (it) => {
  it.effect("leads to the consent page and then to a code, with state and iss, by 303", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const state = "opaque ?&=#%20\"'~"
      const { answer } = yield* obtainCode(service, { query: { state, resource } })
      assert.strictEqual(answer.status, 303)
      assert.strictEqual(answer.headers.get("location")!.split("?")[0], callback)
      const { code, ...rest } = answerOf(answer)
      assert.match(code!, /^sac_[0-9A-Za-z]{49}$/)
      assert.deepEqual(rest, { state, iss })
    })
  )

  it.effect("that a person denies returns access_denied", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      const answer = yield* new Browser(service.url).consent(query, token, "deny")
      assert.strictEqual(answer.status, 303)
      const { error, error_description, ...rest } = answerOf(answer)
      assert.strictEqual(error, "access_denied")
      assert.isString(error_description)
      assert.deepEqual(rest, { state: "state-1", iss })
    })
  )

  it.effect("can be denied before a project token is entered", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const browser = new Browser(url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(yield* Service) }))
      const answer = yield* browser.submit(page, { decision: "deny", project_token: "" })
      assert.strictEqual(answerOf(answer)["error"], "access_denied")
    })
  )

  it.effect("keeps the redirect URI and its query exactly as registered", () =>
    Effect.gen(function* () {
      const service = yield* Service
      for (const redirect_uri of [
        "https://app.test/cb?a=1&b=%2F",
        "com.example.app:/oauth/callback",
        "cursor://host/cb"
      ]) {
        const client_id = yield* makeClient(service, { redirect_uris: [redirect_uri] })
        const { answer } = yield* obtainCode(service, { client_id, redirect_uri })
        const location = answer.headers.get("location")!
        assert.isTrue(
          location.startsWith(`${redirect_uri}${redirect_uri.includes("?") ? "&" : "?"}code=sac_`),
          location
        )
      }
    })
  )

  const notRedirected: ReadonlyArray<readonly [string, Record<string, string | undefined>]> = [
    ["an unknown client", { client_id: "nobody" }],
    ["no client", { client_id: undefined }],
    ["an unregistered redirect URI", { redirect_uri: "https://evil.test/callback" }],
    ["another path", { redirect_uri: "http://127.0.0.1/callback/" }],
    ["another loopback name", { redirect_uri: "http://localhost/callback" }],
    ["a user in front of the host", { redirect_uri: "http://127.0.0.1@evil.test/callback" }],
    ["a fragment", { redirect_uri: `${callback}#x` }],
    ["a longer query", { redirect_uri: `${callback}?x=1` }],
    ["more than 8 KiB", { unknown: "x".repeat(8 * 1024) }]
  ]
  it.effect.each(notRedirected)("with %s ends on a page, without a redirect", ([, given]) =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({ client_id: yield* makeClient(service), ...given })
      const answer = yield* new Browser(service.url).authorize(query)
      assert.strictEqual(answer.status, 400)
      assert.isNull(answer.headers.get("location"))
      assert.include(answer.headers.get("content-type"), "text/html")
    })
  )

  it.effect("without a redirect URI ends on a page if the client has several", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service, { redirect_uris: [callback, "https://app.test/cb"] })
      const query = authorizeQuery({ client_id, redirect_uri: undefined })
      assert.strictEqual((yield* new Browser(service.url).authorize(query)).status, 400)
    })
  )

  it.effect("with client_id or redirect_uri sent twice ends on a page", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      for (const twice of ["&client_id=x", `&redirect_uri=${encodeURIComponent(callback)}`]) {
        assert.strictEqual((yield* new Browser(service.url).authorize(query + twice)).status, 400)
      }
    })
  )

  const redirected: ReadonlyArray<readonly [string, Record<string, string | undefined>, string]> = [
    ["no response_type", { response_type: "" }, "invalid_request"],
    ["another response_type", { response_type: "token" }, "unsupported_response_type"],
    ["another response_mode", { response_mode: "fragment" }, "invalid_request"],
    ["no challenge", { code_challenge: undefined }, "invalid_request"],
    ["a plain challenge", { code_challenge_method: "plain" }, "invalid_request"],
    ["no challenge method", { code_challenge_method: undefined }, "invalid_request"],
    ["a malformed challenge", { code_challenge: "x" }, "invalid_request"],
    ["another resource", { resource: "https://other.test/mcp" }, "invalid_target"],
    ["a resource with a fragment", { resource: `${resource}#x` }, "invalid_target"],
    ["a relative resource", { resource: "/mcp" }, "invalid_target"],
    ["unknown scopes only", { scope: "bridge:transport admin" }, "invalid_scope"],
    ["mobile:devices from any client", { scope: "mobile:devices" }, "invalid_scope"],
    ["a request object", { request: "x" }, "request_not_supported"],
    ["a request_uri", { request_uri: "https://x.test" }, "request_uri_not_supported"],
    ["prompt=none", { prompt: "none" }, "access_denied"],
    ["prompt=none beside another", { prompt: "login none" }, "access_denied"]
  ]
  it.effect.each(redirected)("with %s returns an error to a client that an operator created", ([, given, error]) =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({ client_id: yield* makeClient(service), ...given })
      const answer = yield* new Browser(service.url).authorize(query)
      assert.strictEqual(answer.status, 303, answer.text)
      const { error_description, ...rest } = answerOf(answer)
      assert.deepEqual(rest, { error, state: "state-1", iss })
      assert.match(error_description!, /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/)
    })
  )

  it.effect("with a repeated parameter returns an error, without a repeated state", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      const twice = yield* new Browser(service.url).authorize(`${query}&state=b`)
      const two = yield* new Browser(service.url).authorize(`${query}&resource=a&resource=b`)
      assert.deepEqual([answerOf(twice)["error"], answerOf(twice)["state"]], ["invalid_request", undefined])
      assert.strictEqual(answerOf(two)["error"], "invalid_target")
    })
  )

  it.effect("may repeat unknown parameters, which are ignored", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      const answer = yield* new Browser(service.url).authorize(`${query}&audience=a&audience=b`)
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  it.effect("of a self-registered client returns an error only if the person follows the link", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const query = authorizeQuery({
        client_id: yield* register(service),
        redirect_uri: "http://localhost/callback",
        scope: "nothing"
      })
      const answer = yield* new Browser(service.url).authorize(query)
      assert.strictEqual(answer.status, 400)
      assert.isNull(answer.headers.get("location"))
      assert.match(
        answer.text,
        /<a class="button" href="http:\/\/localhost\/callback\?error=invalid_scope&amp;[^"]*">Return to localhost</
      )
    })
  )

  it.effect("may name any port of a loopback URI registered without one", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const redirect_uri = "http://127.0.0.1:51234/callback"
      const { answer, client_id, code, verifier } = yield* obtainCode(service, { redirect_uri })
      assert.isTrue(answer.headers.get("location")!.startsWith(`${redirect_uri}?code=`))
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier, redirect_uri })
      assert.strictEqual(tokens.status, 200)
    })
  )

  it.effect("may name another port than the one that a loopback URI was registered with", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service, { redirect_uris: ["http://127.0.0.1:6276/callback"] })
      const redirect_uri = "http://127.0.0.1:51234/callback"
      const { code, verifier } = yield* obtainCode(service, { client_id, redirect_uri })
      const exchangeAt = (uri: string) =>
        exchange(service, { client_id, code, code_verifier: verifier, redirect_uri: uri })
      assert.strictEqual((yield* exchangeAt("http://127.0.0.1:6276/callback")).body.error, "invalid_grant")
      assert.strictEqual((yield* exchangeAt(redirect_uri)).status, 200)
    })
  )

  it.effect("grants the requested scopes that the role allows", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service, { role: "reader" })
      const { client_id, code, verifier } = yield* obtainCode(service, {
        token,
        query: { scope: "tasks:write memory:read unknown" }
      })
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(tokens.body.scope, "memory:read tasks:read")
    })
  )

  it.effect("is denied if the token has none of the requested scopes", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service, { scopes: ["context:read"] })
      const query = authorizeQuery({ client_id: yield* makeClient(service), scope: "documents:read" })
      const answer = yield* new Browser(service.url).consent(query, token)
      assert.strictEqual(answerOf(answer)["error"], "access_denied")
    })
  )
})

layer(Service.layer)("the consent page", (it) => {
  const open = Effect.fnUntraced(function* (given: Readonly<Record<string, string>> = {}) {
    const service = yield* Service
    const { project_id, token } = yield* makeToken(service)
    const browser = new Browser(service.url)
    const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service), ...given }))
    return { service, project_id, token, browser, page }
  })

  it.effect("has no script, no frame, no cache and no CORS", () =>
    Effect.gen(function* () {
      const { page } = yield* open()
      assert.strictEqual(page.status, 200)
      assert.notMatch(page.text, /<script|javascript:|\son\w+=/i)
      const policy = page.headers.get("content-security-policy")!
      assert.match(
        policy,
        /^default-src 'none'; style-src 'sha256-[^']+'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'$/
      )
      assert.strictEqual(page.headers.get("x-frame-options"), "DENY")
      assert.strictEqual(page.headers.get("referrer-policy"), "same-origin")
      assert.strictEqual(page.headers.get("cache-control"), "no-store")
      assert.isNull(page.headers.get("access-control-allow-origin"))
    })
  )

  it.effect("asks for a token first, then shows project, role, scopes and destination", () =>
    Effect.gen(function* () {
      const { browser, page, token } = yield* open({ scope: "memory:write" })
      assert.include(page.text, "Lighthouse wants to use one of your projects")
      assert.notInclude(page.text, "Harbour")
      const second = yield* browser.submit(page, { project_token: ` ${token}\n` })
      assert.include(second.text, "Allow Lighthouse to use Harbour?")
      assert.include(second.text, "Contributor")
      assert.include(second.text, "Registered by the operator")
      assert.include(second.text, "Add notes and decisions")
      assert.include(second.text, "127.0.0.1")
      assert.notInclude(second.text, token)
    })
  )

  it.effect("shows the client's name as text, and that it is not verified", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const redirect_uri = "http://localhost/callback"
      const query = authorizeQuery({ client_id: yield* register(service), redirect_uri })
      const page = yield* new Browser(service.url).authorize(query)
      assert.include(page.text, "&lt;b&gt;Mallory&lt;/b&gt;")
      assert.notInclude(page.text, "<b>")
      assert.notInclude(page.text, "\u202e")
      assert.include(page.text, "nobody has verified the name")
    })
  )

  it.effect("answers every invalid token in the same words", () =>
    Effect.gen(function* () {
      const { browser, page, service } = yield* open()
      const expired = yield* makeToken(service, { ttl: Option.some(Duration.millis(1)) })
      const revoked = yield* makeToken(service)
      yield* Context.get(service.services, ProjectTokens).revoke(revoked.token_id)
      yield* TestClock.adjust(Duration.millis(1))
      const texts = new Set<string>()
      for (const project_token of [expired.token, revoked.token, "spt_nonsense", ""]) {
        const answer = yield* browser.submit(page, { project_token })
        assert.strictEqual(answer.status, 422)
        assert.include(answer.text, 'role="alert"')
        texts.add(answer.text)
      }
      assert.strictEqual(texts.size, 1)
    })
  )

  it.effect("ends after five wrong tokens", () =>
    Effect.gen(function* () {
      const { browser, page, token } = yield* open()
      for (let tries = 0; tries < 5; tries++) yield* browser.submit(page, { project_token: "wrong" })
      const answer = yield* browser.submit(page, { project_token: token })
      assert.strictEqual(answer.status, 410)
    })
  )

  it.effect("allows 20 wrong tokens a minute per address; valid ones are not counted", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { token } = yield* makeToken(limited)
      const client_id = yield* makeClient(limited)
      const browser = new Browser(limited.url)
      const submit = (project_token: string) =>
        Effect.flatMap(browser.authorize(authorizeQuery({ client_id })), (page) =>
          browser.submit(page, { project_token })
        )
      for (let tries = 0; tries < 25; tries++) assert.strictEqual((yield* submit(token)).status, 200)
      for (let tries = 0; tries < 20; tries++) assert.strictEqual((yield* submit("wrong")).status, 422)
      const busy = yield* submit("wrong")
      assert.strictEqual(busy.status, 429)
      assert.strictEqual(busy.headers.get("retry-after"), "3")
      assert.include(busy.headers.get("content-type"), "text/html")
      // A neighbour who goes on with two a second keeps nobody out.
      for (let second = 0; second < 2; second++) {
        yield* TestClock.adjust("1 second")
        const statuses = [
          (yield* submit("wrong")).status,
          (yield* submit("wrong")).status,
          (yield* submit(token)).status
        ]
        assert.deepStrictEqual(statuses, [429, 429, 200])
      }
    }).pipe(Effect.scoped)
  )

  it.effect("expires after ten minutes", () =>
    Effect.gen(function* () {
      const { browser, page, token } = yield* open()
      yield* TestClock.adjust(Duration.minutes(10))
      const answer = yield* browser.submit(page, { project_token: token })
      assert.strictEqual(answer.status, 410)
      assert.include(answer.text, "expired")
    })
  )

  it.effect("belongs to the browser that opened it", () =>
    Effect.gen(function* () {
      const { page, service, token } = yield* open()
      const stranger = new Browser(service.url)
      assert.strictEqual((yield* stranger.submit(page, { project_token: token })).status, 403)
      yield* stranger.authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      assert.strictEqual((yield* stranger.submit(page, { project_token: token })).status, 403)
      assert.strictEqual((yield* stranger.get(`/oauth/consent?request=${hiddenFields(page)["request"]}`)).status, 403)
    })
  )

  it.effect.each([
    ["oauth_browser", "", iss],
    ["__Host-oauth_browser", "; Secure", "https://bridge.example"]
  ] as const)(
    "sets the cookie %s that no script reads, and one of ten minutes once a token was entered",
    ([name, secure, origin]) =>
      Effect.gen(function* () {
        const service = yield* instance({ SERVICE_BASE_URL: origin })
        const { token } = yield* makeToken(service)
        const browser = new Browser(service.url)
        const set = ({ headers }: Answer) => headers.getSetCookie().join()
        const path = `/authorize?${authorizeQuery({ client_id: yield* makeClient(service) })}`
        const asked = yield* browser.get(path)
        assert.match(set(asked), new RegExp(`^${name}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Lax${secure}$`))
        assert.strictEqual(set(yield* browser.get(path)), "", "the browser keeps its cookie")
        const { csrf, request } = hiddenFields(yield* browser.get(asked.headers.get("location")!))
        const fields = { csrf, request, project_token: token }
        const entered = yield* post(`${service.url}/oauth/consent`, fields, { cookie: browser.cookie, origin })
        const ofRequest = `${name}_${request}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Lax${secure}; Max-Age=600`
        assert.match(set(entered), new RegExp(`^${ofRequest}$`))
      })
  )

  it.effect("accepts forms from its own origin only", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      const bound = yield* browser.submit(page, { project_token: token })
      for (const headers of [
        { origin: "https://evil.test" },
        { origin: "null" },
        { origin: "" },
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" }
      ]) {
        assert.strictEqual((yield* browser.submit(bound, { decision: "allow" }, headers)).status, 403)
      }
      const other = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      const { csrf } = hiddenFields(other)
      assert.strictEqual((yield* browser.submit(page, { project_token: token, csrf: csrf! })).status, 403)
      for (const decision of ["allow", "deny"]) {
        assert.strictEqual((yield* browser.submit(bound, { decision, csrf: "x" })).status, 403)
      }
      const own = yield* browser.submit(bound, { decision: "allow" }, { origin: iss, "sec-fetch-site": "same-origin" })
      assert.strictEqual(own.status, 303)
    })
  )

  it.effect("accepts no form without an Origin, neither the token's nor the decision's", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      const bare = (from: Answer, fields: Readonly<Record<string, string>>) =>
        post(`${service.url}/oauth/consent`, { ...hiddenFields(from), ...fields }, { cookie: browser.cookie })
      assert.strictEqual((yield* bare(page, { project_token: token })).status, 403)
      assert.strictEqual((yield* bare(page, { decision: "deny" })).status, 403)
      const bound = yield* browser.submit(page, { project_token: token })
      assert.strictEqual((yield* bare(bound, { decision: "allow" })).status, 403)
      assert.strictEqual((yield* browser.submit(bound, { decision: "allow" })).status, 303)
    })
  )

  it.effect("gives nothing to whoever planted the browser's cookie before the token was entered", () =>
    Effect.gen(function* () {
      const { browser: attacker, page, service, token } = yield* open()
      const person = new Browser(service.url, attacker.cookies)
      const shown = yield* person.get(`/oauth/consent?request=${hiddenFields(page)["request"]}`)
      const bound = yield* person.submit(shown, { project_token: token })
      assert.include(bound.text, "Allow Lighthouse to use Harbour?")
      for (const fields of [{ decision: "allow" }, { decision: "deny" }, { project_token: "spt_guess" }]) {
        assert.strictEqual((yield* attacker.submit(page, fields)).status, 403)
        assert.strictEqual((yield* attacker.submit(bound, fields)).status, 403)
      }
      const request = hiddenFields(page)["request"]
      assert.strictEqual((yield* attacker.get(`/oauth/consent?request=${request}`)).status, 403)
      assert.isString(answerOf(yield* person.submit(bound, { decision: "allow" }))["code"])
    })
  )

  it.effect("answers a token form that is sent again after its answer was lost, with the same cookie", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      const lost = new Browser(service.url, browser.cookies)
      const twins = [lost, browser, new Browser(service.url, browser.cookies)]
      const answers = yield* Effect.forEach(twins, (twin) => twin.submit(page, { project_token: token }), {
        concurrency: 3
      })
      for (const { text } of answers) assert.include(text, "Allow Lighthouse to use Harbour?")
      assert.deepStrictEqual(browser.cookies, lost.cookies)
      // The browser took the new cookie from the first answer, and sends the form of before once more.
      const again = yield* browser.submit(page, { project_token: token })
      assert.include(again.text, "Allow Lighthouse to use Harbour?")
      const other = yield* makeToken(service)
      assert.strictEqual((yield* browser.submit(page, { project_token: other.token })).status, 403)
      assert.strictEqual((yield* browser.submit(again, { decision: "allow" })).status, 303)
    })
  )

  it.effect("creates one grant if Allow is pressed twice, and the last code works", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { token, project_id } = yield* makeToken(service)
      const client_id = yield* makeClient(service)
      const { challenge, verifier } = pkce()
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id, code_challenge: challenge }))
      const bound = yield* browser.submit(page, { project_token: token })
      const first = yield* browser.submit(bound, { decision: "allow" })
      const second = yield* browser.submit(bound, { decision: "allow" })
      const lost = yield* exchange(service, { client_id, code: answerOf(first)["code"], code_verifier: verifier })
      const kept = yield* exchange(service, { client_id, code: answerOf(second)["code"], code_verifier: verifier })
      assert.deepEqual([lost.status, kept.status], [400, 200])
      assert.lengthOf(yield* sql`select 1 from oauth_grant where project_id = ${project_id}::uuid`, 1)
      const third = yield* browser.submit(bound, { decision: "allow" })
      assert.strictEqual(third.status, 410)
    })
  )

  it.effect("creates one grant if Allow is pressed ten times at once", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { token, project_id } = yield* makeToken(service)
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      const bound = yield* browser.submit(page, { project_token: token })
      const answers = yield* Effect.all(
        Array.from({ length: 10 }, () => browser.submit(bound, { decision: "allow" })),
        { concurrency: 10 }
      )
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [303])
      assert.lengthOf(yield* sql`select 1 from oauth_grant where project_id = ${project_id}::uuid`, 1)
    })
  )

  it.effect("keeps a denial, recorded once: Allow is rejected afterwards", () =>
    Effect.gen(function* () {
      const { browser, page, project_id, token } = yield* open()
      const bound = yield* browser.submit(page, { project_token: token })
      yield* browser.submit(bound, { decision: "deny" })
      assert.strictEqual((yield* browser.submit(bound, { decision: "allow" })).status, 410)
      assert.strictEqual((yield* browser.get(`/oauth/consent?request=${hiddenFields(page)["request"]}`)).status, 410)
      assert.strictEqual(answerOf(yield* browser.submit(bound, { decision: "deny" }))["error"], "access_denied")
      const { services } = yield* Service
      const events = yield* Context.get(services, Audit).list(project_id, firstPage)
      assert.lengthOf(
        events.filter(({ action }) => action === "oauth_grant.denied"),
        1
      )
    })
  )

  it.effect("serves two requests in two tabs of one browser", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      const other = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service), state: "two" }))
      const first = yield* browser.submit(yield* browser.submit(page, { project_token: token }), { decision: "allow" })
      const second = yield* browser.submit(yield* browser.submit(other, { project_token: token }), {
        decision: "allow"
      })
      assert.deepEqual([answerOf(first)["state"], answerOf(second)["state"]], ["state-1", "two"])
    })
  )

  it.effect("lets the person enter another token", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      yield* browser.submit(page, { project_token: token })
      const request = hiddenFields(page)["request"]
      const again = yield* browser.get(`/oauth/consent?request=${request}&other=1`)
      assert.include(again.text, 'name="project_token"')
      const other = yield* makeToken(service, { role: "reader" })
      const bound = yield* browser.submit(again, { project_token: other.token })
      assert.include(bound.text, "Reader")
    })
  )

  it.effect("is shown again if another token was entered in another tab", () =>
    Effect.gen(function* () {
      const { browser, page, service, token } = yield* open()
      const reader = yield* makeToken(service, { role: "reader" })
      const shown = yield* browser.submit(page, { project_token: reader.token })
      const tab = yield* browser.get(`/oauth/consent?request=${hiddenFields(page)["request"]}&other=1`)
      yield* browser.submit(tab, { project_token: token })
      const again = yield* browser.submit(shown, { decision: "allow" })
      assert.strictEqual(again.status, 200)
      assert.include(again.text, "Contributor")
      assert.strictEqual((yield* browser.submit(again, { decision: "allow" })).status, 303)
    })
  )

  it.effect("allows nothing after its token was revoked", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token, token_id } = yield* makeToken(service)
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      const bound = yield* browser.submit(page, { project_token: token })
      yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      assert.strictEqual((yield* browser.submit(bound, { decision: "allow" })).status, 410)
    })
  )

  it.effect("answers other methods with 405, and malformed forms with a page", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      assert.strictEqual((yield* send(`${url}/oauth/consent`, { method: "PUT" })).status, 405)
      assert.strictEqual((yield* send(`${url}/authorize`, { method: "POST" })).status, 405)
      assert.strictEqual((yield* send(`${url}/oauth/consent`, { body: {}, headers: { origin: iss } })).status, 400)
      assert.strictEqual((yield* post(`${url}/oauth/consent`, {}, { origin: iss })).status, 404)
      assert.strictEqual((yield* send(`${url}/oauth/consent?request=x`, { method: "GET" })).status, 404)
    })
  )
})
