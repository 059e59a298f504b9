/** Which browser an authorization request belongs to: each condition decides alone (RFC 9700 4.7). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { sha256 } from "../../../src/platform/crypto/Sha256.ts"
import { checkCsrf, openRequest, renewed } from "../../../src/signin/oauth/consent/BrowserBinding.ts"

type Request = Effect.Success<ReturnType<ReturnType<typeof openRequest>>>["request"]

const now = new Date("2026-11-01T12:00:00Z")
const request_id = "01990000-0000-7000-8000-000000000001"
const another_id = "01990000-0000-7000-8000-000000000002"
const browser = Option.some(Redacted.make("the browser"))
const another = Option.some(Redacted.make("another browser"))
const visit = { request_id, browser }

const stored: Request = {
  request_id,
  browser_hash: sha256("the browser"),
  client_id: "client",
  redirect_uri: "http://127.0.0.1/callback",
  state: null,
  scopes: [],
  code_challenge: "c".repeat(43),
  dpop_jkt: null,
  expires_at: new Date(now.getTime() + 1),
  wrong_tokens: 4,
  decided_at: null,
  grant_id: null,
  project_token_id: null,
  person_key_id: null,
  project_id: null,
  project_name: null,
  role: null,
  token_scopes: null,
  token_expires_at: null
}
/** Opens a stored request, which is found under its own id only. */
const open = (changed: Partial<Request>, by: Parameters<ReturnType<typeof openRequest>>[0] = visit) =>
  openRequest((id) => Effect.succeed(id === request_id ? Option.some({ ...stored, ...changed }) : Option.none()))(
    by,
    now
  )

describe("an authorization request", () => {
  it.effect("is opened by the browser that made it", () =>
    Effect.gen(function* () {
      const { csrf, request } = yield* open({})
      assert.deepStrictEqual(request, stored)
      assert.match(csrf, /^[\w-]{43}$/)
    })
  )

  it.effect.each([
    ["another browser", {}, { request_id, browser: another }, "other_browser"],
    ["a browser without a cookie", {}, { request_id, browser: Option.none() }, "other_browser"],
    ["an unknown id", {}, { request_id: another_id, browser }, "unknown"],
    ["a text that is no id", {}, { request_id: "' or true --", browser }, "unknown"],
    ["its own browser at its expiry", { expires_at: now }, visit, "expired"],
    ["its own browser after five wrong tokens", { wrong_tokens: 5 }, visit, "too_many_tries"]
  ] as const)("is not opened by %s", ([, changed, by, reason]) =>
    Effect.gen(function* () {
      const { reason: given } = yield* Effect.flip(
        open(changed, by) as Effect.Effect<unknown, { readonly reason: string }>
      )
      assert.strictEqual(given, reason)
    })
  )
})

describe("a form of the consent page", () => {
  const accepts = Effect.fnUntraced(function* (by: typeof visit | { request_id: string; browser: Option.None<never> }) {
    const { csrf } = yield* open({})
    return Option.isSome(yield* Effect.option(checkCsrf({ ...by, csrf })))
  })

  it.effect("is accepted from the browser that was shown it, for its request", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* accepts(visit))
      assert.isFalse(yield* accepts({ request_id, browser: another }))
      assert.isFalse(yield* accepts({ request_id, browser: Option.none() }))
      assert.isFalse(yield* accepts({ request_id: another_id, browser }))
      for (const csrf of ["", "x".repeat(43)]) {
        assert.isTrue(Option.isNone(yield* Effect.option(checkCsrf({ ...visit, csrf }))))
      }
    })
  )

  it("renews the cookie: the same for the same form, and another for each browser, request and token", () => {
    const cookieOf = (by: typeof visit, token: string) =>
      Option.getOrUndefined(Option.map(renewed(by, Redacted.make(token)), Redacted.value))
    const cookies = [
      cookieOf(visit, "token"),
      cookieOf(visit, "another token"),
      cookieOf({ request_id, browser: another }, "token"),
      cookieOf({ request_id: another_id, browser }, "token")
    ]
    assert.strictEqual(cookieOf(visit, "token"), cookies[0])
    assert.strictEqual(new Set(cookies).size, 4)
    for (const cookie of cookies) assert.match(cookie!, /^[\w-]{43}$/)
  })
})
