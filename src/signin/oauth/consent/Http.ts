/**
 * Serves /authorize and /oauth/consent, the part of OAuth that runs in a browser (spec 4.10).
 *
 * Every redirect is a 303, so that the browser never re-posts a form, which may hold a project token, to another site.
 * There is no CORS: scripts of other origins can read nothing. A form is accepted only from a page of this service and in
 * the browser that made the request: Origin, Sec-Fetch-Site, the cookie and the CSRF value must all agree. A browser has
 * one cookie for the requests that it opens, and one more for each in which a project token was entered.
 */
import { Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Settings } from "../../../platform/settings/Settings.ts"
import { salt } from "../../../platform/crypto/Random.ts"
import { readForm } from "../../../platform/edge/Form.ts"
import { onlyMethods } from "../../../platform/edge/Methods.ts"
import { RateLimit } from "../../../platform/edge/RateLimit.ts"
import { isTransient, report } from "../../../platform/edge/Report.ts"
import { pageHeaders as headers } from "../../../platform/html/Page.ts"
import { Caller } from "../../../wire/Headers.ts"
import { Authorize } from "../authorize/Authorize.ts"
import { parametersOf } from "../Parameters.ts"
import { consentPath } from "./BrowserBinding.ts"
import { Consent } from "./Consent.ts"
import { consentPage, type EndReason, endPage, returnPage } from "./Pages.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** A request can be decided for ten minutes. */
const maxAge = "; Max-Age=600"
const requestRate = { perSecond: 20, burst: 200 }
/** Wrong project tokens per address; valid ones are not counted. */
const wrongTokenRate = { perSecond: 20 / 60, burst: 20 }

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { authUrl } = yield* Settings
    const authorize = yield* Authorize
    const consent = yield* Consent
    const limits = yield* RateLimit
    const requests = limits.buckets(requestRate)
    const wrongTokens = limits.buckets(wrongTokenRate)

    const secure = authUrl.protocol === "https:"
    const cookie = secure ? "__Host-oauth_browser" : "oauth_browser"

    const show = (status: number, body: string, retryAfter?: number) =>
      HttpServerResponse.text(body, {
        status,
        headers: { ...headers, ...(retryAfter !== undefined && { "retry-after": String(retryAfter) }) },
        contentType: "text/html; charset=utf-8"
      })
    const end = (reason: EndReason, retryAfter?: number) => {
      const { body, status } = endPage(reason)
      return show(status, body, retryAfter ?? (status === 503 ? 5 : undefined))
    }
    const redirect = (location: string) => HttpServerResponse.redirect(location, { status: 303, headers })

    /** Answers with a page whatever happens: rate limits and failures included. */
    const serve = (
      method: "GET" | "POST",
      path: HttpRouter.PathInput,
      handle: (request: Request) => Effect.Effect<Response, unknown, Request>
    ) =>
      router.add(method, path, (request) =>
        Effect.gen(function* () {
          const { network } = yield* Caller
          const wait = yield* requests.take(network)
          return wait === 0 ? yield* handle(request) : end("busy", wait)
        }).pipe(
          Effect.catchCause((cause) => Effect.as(isTransient(cause) ? Effect.void : report(cause), end("failed")))
        )
      )

    const cookieOf = (request_id: string) => `${cookie}_${request_id}`
    const browserOf = ({ cookies }: Request, request_id = "") => {
      const value = cookies[cookieOf(request_id)] ?? cookies[cookie] ?? ""
      return /^[A-Za-z0-9_-]{43}$/.test(value) ? Option.some(Redacted.make(value)) : Option.none()
    }
    const withCookie = (response: Response, name: string, value: Redacted.Redacted<string>, maxAge = "") =>
      HttpServerResponse.setHeader(
        response,
        "set-cookie",
        `${name}=${Redacted.value(value)}; Path=/${maxAge}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`
      )

    yield* serve("GET", "/authorize", (request) =>
      Effect.gen(function* () {
        const known = browserOf(request)
        const browser = Option.isSome(known)
          ? known.value
          : Redacted.make(Buffer.from(yield* salt).toString("base64url"))
        const { request_id } = yield* authorize.begin(queryOf(request), browser)
        const response = redirect(consentPath(request_id))
        return Option.isSome(known) ? response : withCookie(response, cookie, browser)
      }).pipe(
        Effect.catchTags({
          NoRedirect: ({ reason }) => Effect.succeed(end(reason)),
          ErrorRedirect: (error) =>
            Effect.succeed(error.automatic ? redirect(error.location) : show(400, returnPage(error)))
        })
      )
    )

    yield* serve("GET", "/oauth/consent", (request) => {
      const query = parametersOf(new URLSearchParams(queryOf(request)))
      const request_id = query.get("request") ?? ""
      return consent.show({ request_id, browser: browserOf(request, request_id) }).pipe(
        Effect.map((view) => (query.get("other") === undefined ? view : { ...view, project: undefined })),
        Effect.map((view) => show(200, consentPage(view))),
        Effect.catchTag("ConsentEnded", ({ reason }) => Effect.succeed(end(reason)))
      )
    })

    yield* serve("POST", "/oauth/consent", (request) =>
      Effect.gen(function* () {
        if (!isOwnForm(request, authUrl.origin)) return end("other_browser")
        const form = parametersOf(yield* readForm(request))
        const request_id = form.get("request") ?? ""
        const visit = { request_id, browser: browserOf(request, request_id), csrf: form.get("csrf") ?? "" }
        const decision = form.get("decision")
        if (decision === "allow" || decision === "deny") {
          return redirect(yield* consent.decide({ ...visit, decision, token_id: form.get("token_id") }))
        }
        const { network } = yield* Caller
        const wait = yield* wrongTokens.wait(network)
        if (wait > 0) return end("busy", wait)
        const token = Redacted.make((form.get("project_token") ?? "").trim())
        const enter = (browser: typeof visit.browser) => consent.enterToken({ ...visit, browser, token })
        const renewed = yield* enter(visit.browser).pipe(
          // A form that is sent twice was shown under the cookie of before.
          Effect.catchTag("ConsentEnded", (ended) =>
            ended.reason === "other_browser" ? enter(browserOf(request)) : ended
          ),
          Effect.tapErrorTag("WrongToken", () => wrongTokens.take(network))
        )
        return withCookie(redirect(consentPath(request_id)), cookieOf(request_id), renewed, maxAge)
      }).pipe(
        Effect.catchTags({
          ConsentEnded: ({ reason }) => Effect.succeed(end(reason)),
          WrongToken: ({ page }) => Effect.succeed(show(422, consentPage(page, true))),
          FormError: () => Effect.succeed(end("malformed"))
        })
      )
    )
  })
)

export const ConsentHttp = Layer.mergeAll(
  routes,
  onlyMethods("/authorize", ["GET"]),
  onlyMethods("/oauth/consent", ["GET", "POST"])
)

const queryOf = ({ url }: Request) => {
  const mark = url.indexOf("?")
  return mark < 0 ? "" : url.slice(mark + 1)
}

/** Every browser sends Origin with a form; Sec-Fetch-Site is missing on http, except to loopback addresses. */
const isOwnForm = ({ headers }: Request, origin: string) =>
  headers["origin"] === origin && ["same-origin", "none"].includes(headers["sec-fetch-site"] ?? "none")
