/** Requests every route with every method and content type, and checks the headers that each answer must have. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../../src/wire/Api.ts"
import { appPaths } from "../../../src/people/console/app/Http.ts"
import { entries, examples } from "../../../src/people/site/docs/Contents.ts"
import { sitePaths } from "../../../src/people/site/Http.ts"
import { routes } from "../../../src/Http.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { instance, Service } from "../../support/service/Service.ts"

/** The paths that the service registers at its router. */
const registered = Effect.gen(function* () {
  const paths = new Set<string>()
  const recording = HttpRouter.HttpRouter.of({
    ...(yield* HttpRouter.make),
    add: (_, path) => Effect.sync(() => paths.add(path)) as never,
    addAll: (routes) => Effect.sync(() => routes.forEach(({ path }) => paths.add(path))) as never
  })
  const { services } = yield* instance(everything)
  yield* Layer.build(Layer.fresh(routes)).pipe(
    Effect.provideContext(Context.add(services, HttpRouter.HttpRouter, recording))
  )
  return [...paths]
})

/** The pages of /docs are served alike: one stands for the others. */
const isLikeAnother = (path: string) => entries.slice(1).some((entry) => entry.path === path)

/** Turns on the features that are off by default. */
const everything = { SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" }
const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"]
const types = [undefined, "application/json", "application/x-www-form-urlencoded", "text/plain", "text/html", "x"]

/** What may be cached. Other successes are `no-store`, except metadata. */
const cacheable: Readonly<Record<string, string>> = Object.fromEntries(
  [...sitePaths, ...appPaths].map((path) => [path, "public, max-age=300"])
)

const hasRequiredHeaders = (path: string, method: string, { body, headers, status, text }: Answer, request: string) => {
  assert.isBelow(status, 500, request)
  assert.match(headers.get("x-request-id")!, /^[0-9a-f-]{36}$/, request)
  assert.strictEqual(headers.get("x-content-type-options"), "nosniff", request)
  const type = headers.get("content-type") ?? ""
  const isFile =
    [...appPaths, ...examples.map(({ path }) => path), "/favicon.svg", "/favicon.ico"].includes(path) && status === 200
  const isUsual = /^application\/json|^text\/html; charset=utf-8$/.test(type)
  if (text !== "") assert.isTrue(isUsual || isFile, `${request}: ${type}`)
  if (body !== undefined) assert.notMatch(type, /charset=(?!utf-8)/i, request)
  if (type.startsWith("text/html")) isPage(headers, path.startsWith("/docs"))
  if (path === "/nowhere") assert.strictEqual(status, 404, request)
  if (status === 405) assert.isNotEmpty(headers.get("allow"), request)
  if (status === 405 && method !== "HEAD") assert.notInclude(headers.get("allow")!.split(", "), method, request)
  if (status === 401) assert.match(headers.get("www-authenticate")!, /^(Bearer|Basic)/, request)
  const cache = headers.get("cache-control")
  if (status >= 400 || path.startsWith("/bridge/")) assert.strictEqual(cache, "no-store", request)
  else if (cacheable[path] !== undefined) assert.strictEqual(cache, cacheable[path], request)
  else if (path.startsWith("/.well-known/") && method !== "OPTIONS") assert.strictEqual(cache, "max-age=300", request)
  else if (method !== "OPTIONS") assert.strictEqual(cache, "no-store", request)
}

const templateOf = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1")

/** Replaces each parameter with an id that does not exist. */
const filled = (path: string) => path.replaceAll(/:\w+/g, "01990000-0000-7000-8000-000000000001")

const isPage = (headers: Headers, scripted: boolean) => {
  const hash = "'sha256-[A-Za-z0-9+/]{43}='"
  const script = scripted ? ` script-src ${hash}; connect-src 'self'; form-action 'self';` : ""
  assert.match(
    headers.get("content-security-policy")!,
    new RegExp(
      `^default-src 'none'; style-src ${hash};${script} img-src 'self'; base-uri 'none'; frame-ancestors 'none'$`
    )
  )
  assert.strictEqual(headers.get("x-frame-options"), "DENY")
  assert.strictEqual(headers.get("referrer-policy"), "same-origin")
  assert.strictEqual(headers.get("cross-origin-opener-policy"), "same-origin")
  assert.strictEqual(headers.get("cross-origin-resource-policy"), "same-origin")
  assert.include(headers.get("permissions-policy")!, "camera=()")
  assert.strictEqual(headers.get("x-robots-tag"), "noindex")
}

layer(Service.layer)("for every method and content type,", (it) => {
  it.effect(
    "every route answers with the required headers",
    () =>
      Effect.gen(function* () {
        const paths = yield* registered
        assert.includeMembers(paths, ["/", "/docs", "/mcp", "/token", "/register", "/oauth/consent", "/readyz"])
        assert.includeMembers(paths, Object.keys(OpenApi.fromApi(Api).paths).map(templateOf))
        const { url } = yield* instance(everything)
        const every = [...paths.filter((path) => !isLikeAnother(path)), "/nowhere"].flatMap((path) =>
          methods.flatMap((method) => types.map((type) => ({ path: filled(path), method, type })))
        )
        const check = Effect.fnUntraced(function* ({ method, path, type }: (typeof every)[number]) {
          const body = type !== undefined && !["GET", "HEAD"].includes(method) ? { body: "{" } : {}
          const headers = type === undefined ? {} : { "content-type": type }
          const answer = yield* send(url + path, { method, headers, ...body })
          hasRequiredHeaders(path, method, answer, `${method} ${path} as ${type}`)
        })
        yield* Effect.forEach(every, check, { concurrency: 16, discard: true })
      }),
    60_000
  )

  it.effect(
    "every route answers 405 to exactly the methods that its Allow header omits",
    () =>
      Effect.gen(function* () {
        const { url } = yield* instance(everything)
        const check = Effect.fnUntraced(function* (path: string) {
          const refused = yield* send(url + path, { method: "PROPFIND" })
          // /mcp authenticates first.
          if (refused.status === 401) return
          assert.strictEqual(refused.status, 405, path)
          const allowed = refused.headers.get("allow")!.split(", ")
          for (const method of methods) {
            const { headers, status } = yield* send(url + path, { method })
            assert.strictEqual(status !== 405, allowed.includes(method), `${method} ${path}`)
            if (status === 405) assert.strictEqual(headers.get("allow"), allowed.join(", "), path)
          }
        })
        yield* Effect.forEach(yield* registered, (path) => check(filled(path)), { concurrency: 8, discard: true })
      }),
    60_000
  )

  it.effect("every answer of a service at an https address sets Strict-Transport-Security", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_BASE_URL: "https://bridge.example.com" })
      for (const path of ["/", "/docs", "/mcp", "/healthz", "/bridge/v1/tokens/self", "/authorize", "/nowhere"]) {
        const { headers } = yield* send(url + path, { method: "GET" })
        assert.strictEqual(headers.get("strict-transport-security"), "max-age=31536000")
      }
    })
  )

  it.effect.each([
    { SERVICE_BASE_URL: "https://bridge.example.com", SERVICE_AUTH_URL: "http://127.0.0.1:8788" },
    { SERVICE_BASE_URL: "http://127.0.0.1:8787", SERVICE_AUTH_URL: "https://auth.example.com" }
  ])("no answer sets it where people also use http: %o", (settings) =>
    Effect.gen(function* () {
      const { url } = yield* instance(settings)
      assert.isNull((yield* send(`${url}/healthz`, { method: "GET" })).headers.get("strict-transport-security"))
    })
  )
})
