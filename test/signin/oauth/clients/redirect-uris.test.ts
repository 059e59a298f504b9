/** Which redirect URIs clients may register, and which requests match them (spec 5.5; RFC 8252 7). */
import { assert, describe, it as test } from "@effect/vitest"
import * as FastCheck from "fast-check"
import { isAcceptable, matches } from "../../../../src/signin/oauth/clients/RedirectUri.ts"

describe("redirect URIs", () => {
  const registered = ["http://127.0.0.1/callback?a=1", "http://localhost:8080/callback", "https://app.test/cb"]

  test("match as text, except for the port of a loopback URI, with whatever port it was registered", () => {
    const port = FastCheck.integer({ min: 1, max: 65_535 })
    FastCheck.assert(FastCheck.property(port, (n) => matches(`http://127.0.0.1:${n}/callback?a=1`, registered)))
    FastCheck.assert(FastCheck.property(port, (n) => matches(`http://localhost:${n}/callback`, registered)))
    FastCheck.assert(FastCheck.property(port, (n) => !matches(`http://127.0.0.1:${n}/callback`, registered)))
    FastCheck.assert(FastCheck.property(port, (n) => !matches(`https://app.test:${n}/cb`, registered)))
    assert.isFalse(matches("http://127.0.0.1:0/callback?a=1", registered))
    assert.isFalse(matches("http://127.0.0.1:04711/callback?a=1", registered))
    assert.isFalse(matches("http://127.0.0.1:65536/callback?a=1", registered))
    assert.isFalse(matches("http://[::1]:80/callback?a=1", registered))
  })

  test("do not match a longer or shorter URI at any port", () => {
    for (const uri of [
      "http://127.0.0.1:4711/callback?a=",
      "http://127.0.0.1:4711/callback",
      "http://127.0.0.1:4711"
    ]) {
      assert.isFalse(matches(uri, registered), uri)
      assert.isFalse(matches(`${uri}x`, registered), uri)
    }
  })

  test("do not match a mutation of a registered URI", () => {
    const mutation = FastCheck.tuple(
      FastCheck.constantFrom(...registered, "http://127.0.0.1:4711/callback?a=1"),
      FastCheck.nat(),
      FastCheck.string({ minLength: 1, maxLength: 3 }),
      FastCheck.constantFrom("insert", "replace", "delete")
    )
    FastCheck.assert(
      FastCheck.property(mutation, ([uri, place, text, how]) => {
        const at = place % (uri.length + 1)
        const mutated =
          how === "insert"
            ? uri.slice(0, at) + text + uri.slice(at)
            : uri.slice(0, at) + (how === "replace" ? text : "") + uri.slice(at + 1)
        const samePlace = /^http:\/\/(127\.0\.0\.1:[1-9]\d{0,4}\/callback\?a=1|localhost:[1-9]\d{0,4}\/callback)$/.test(
          mutated
        )
        assert.isTrue(registered.includes(mutated) || samePlace || !matches(mutated, registered), mutated)
      }),
      { numRuns: 5000 }
    )
  })

  test.each([
    "https://a.test/cb",
    "https://a.test",
    "http://127.0.0.1/",
    "http://[::1]:8080/cb",
    "http://localhost",
    "com.example.app:/cb",
    "cursor://x/cb"
  ])("may be registered as %s", (uri) => assert.isTrue(isAcceptable(uri, undefined)))
  test.each([
    "http://example.com/cb",
    "http://127.0.0.2/",
    "http://localhost.evil.test/",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "myapp:/cb",
    "https://a.test/#x",
    "https://u@a.test/",
    "https:///x",
    "/cb",
    "",
    "https://a.test/ x",
    ...["code", "state", "iss", "error", "error_description"].map((name) => `https://a.test/?${name}=1`),
    "http://127.0.0.1@evil.test/",
    "https://a.test\\@b.test/"
  ])("must not be registered as %s", (uri) => assert.isFalse(isAcceptable(uri, undefined)))
  test("of web clients must be https", () => {
    assert.isTrue(isAcceptable("https://a.test/cb", "web"))
    assert.isFalse(isAcceptable("http://localhost/cb", "web"))
    assert.isFalse(isAcceptable("com.example.app:/cb", "web"))
  })
})
