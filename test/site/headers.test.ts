/** A walk over every route, method and content type: what every answer has, whoever asks and however. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { Api } from "../../src/Api.ts"
import { type Answer, send } from "../support/Http.ts"
import { instance, Service } from "../support/Service.ts"

const routes = [
  ...Object.keys(OpenApi.fromApi(Api).paths).map((path) =>
    path.replaceAll(/\{\w+\}/g, "01990000-0000-7000-8000-000000000001")
  ),
  "/",
  "/docs",
  "/healthz",
  "/readyz",
  "/openapi.json",
  "/mcp",
  "/authorize",
  "/oauth/consent",
  "/token",
  "/register",
  "/revoke",
  "/.well-known/oauth-protected-resource/mcp",
  "/.well-known/oauth-protected-resource",
  "/.well-known/oauth-authorization-server",
  "/.well-known/openid-configuration",
  "/nowhere"
]
const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
const types = [undefined, "application/json", "application/x-www-form-urlencoded", "text/plain", "text/html", "x"]

/** What may be kept, and for how long; everything else that is no refusal is `no-store` or the static contract. */
const kept: Readonly<Record<string, string>> = { "/": "public, max-age=300", "/docs": "public, max-age=300" }

const isAsItShouldBe = (path: string, method: string, { body, headers, status, text }: Answer) => {
  assert.isBelow(status, 500)
  assert.match(headers.get("x-request-id")!, /^[0-9a-f-]{36}$/)
  assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
  const type = headers.get("content-type") ?? ""
  if (text !== "") assert.match(type, /^application\/json|^text\/html; charset=utf-8$/)
  if (body !== undefined) assert.notMatch(type, /charset=(?!utf-8)/i)
  if (type.startsWith("text/html")) isPage(headers)
  if (status === 405) assert.isNotEmpty(headers.get("allow"))
  if (status === 405 && method !== "HEAD") assert.notInclude(headers.get("allow")!.split(", "), method)
  if (status === 401) assert.match(headers.get("www-authenticate")!, /^(Bearer|Basic)/)
  const cache = headers.get("cache-control")
  if (status >= 400 || path.startsWith("/bridge/")) assert.strictEqual(cache, "no-store")
  else if (kept[path] !== undefined) assert.strictEqual(cache, kept[path])
  else if (path.startsWith("/.well-known/") && method !== "OPTIONS") assert.strictEqual(cache, "max-age=300")
  else if (path !== "/openapi.json" && method !== "OPTIONS") assert.strictEqual(cache, "no-store")
}

const isPage = (headers: Headers) => {
  assert.match(
    headers.get("content-security-policy")!,
    /^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; frame-ancestors 'none'$/
  )
  assert.strictEqual(headers.get("x-frame-options"), "DENY")
  assert.strictEqual(headers.get("referrer-policy"), "same-origin")
  assert.strictEqual(headers.get("cross-origin-opener-policy"), "same-origin")
  assert.strictEqual(headers.get("cross-origin-resource-policy"), "same-origin")
  assert.include(headers.get("permissions-policy")!, "camera=()")
  assert.strictEqual(headers.get("x-robots-tag"), "noindex")
}

layer(Service.layer)("whatever the method and the content type,", (it) => {
  for (const path of routes) {
    it.effect(`${path} answers with the headers that it owes`, () =>
      Effect.gen(function* () {
        const { url } = yield* instance({ SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })
        for (const method of methods) {
          for (const type of types) {
            const asked = {
              method,
              headers: type === undefined ? {} : { "content-type": type },
              ...(type !== undefined && !["GET", "HEAD"].includes(method) && { body: "{" })
            }
            const answer = yield* send(url + path, asked)
            isAsItShouldBe(path, method, answer)
            if (path === "/nowhere") assert.strictEqual(answer.status, 404)
          }
        }
      })
    )
  }

  it.effect("a page over https may be had over https only", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_BASE_URL: "https://bridge.example.com" })
      for (const path of ["/", "/docs"]) {
        const { headers } = yield* send(url + path, { method: "GET" })
        assert.strictEqual(headers.get("strict-transport-security"), "max-age=31536000")
      }
    })
  )
})
