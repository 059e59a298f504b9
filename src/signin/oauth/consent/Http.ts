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
import { onlyMethods } from "../../../platform/edge/routes/Methods.ts"
import { isFromOwnPage, ownCookie, pageRoutes, queryOf } from "../../../platform/edge/routes/PageRoutes.ts"
import { pageHeaders as headers } from "../../../platform/html/Page.ts"
import { passkeyHeaders } from "../../passkeys/Card.ts"
import { PersonKeys } from "../../passkeys/PersonKeys.ts"
import { preSession } from "../../passkeys/PreSession.ts"
import { sessionCookie } from "../../sessions/SessionCookie.ts"
import { Authorize } from "../authorize/Authorize.ts"
import { parametersOf } from "../Parameters.ts"
import { consentPath } from "./BrowserBinding.ts"
import { Consent, type ConsentPage, TooManySignIns } from "./Consent.ts"
import { consentPage, type EndReason, endPage, returnPage, type Sent } from "./Pages.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** Seconds. A request can be decided for ten minutes. */
const maxAge = 600

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { authUrl, baseUrl, console } = yield* Settings
    const authorize = yield* Authorize
    const consent = yield* Consent
    const { countingWrong, fail, redirect, serve, show } = yield* pageRoutes(router, headers, endPage)

    // A session stands for its token at the address of the console only. Another port shares its cookies, but not more.
    const offersSession = console.enabled && authUrl.origin === baseUrl.origin
    const { secretOf, sessionOf } = yield* sessionCookie
    const passkeys = offersSession ? (yield* PersonKeys).relyingParty : undefined
    const browsers = yield* preSession
    /** The page; while it asks for a token, it offers the session of this browser, and passkeys. */
    const ask = Effect.fnUntraced(function* (request: Request, status: number, view: ConsentPage, sent: Sent = {}) {
      if (view.project !== undefined || !offersSession) return show(status, consentPage(view, sent))
      // A cookie of the console that is limited is no reason to refuse this page.
      const session = yield* Effect.catchTag(sessionOf(request, false), "rate_limited", () => Effect.succeedNone)
      const body = consentPage(view, sent, { session: Option.getOrUndefined(session), passkeys })
      const page = show(status, body)
      return passkeys === undefined ? page : HttpServerResponse.setHeaders(page, passkeyHeaders)
    })

    const secure = authUrl.protocol === "https:"
    const cookie = secure ? "__Host-oauth_browser" : "oauth_browser"

    const end = (reason: EndReason) => {
      const { body, status } = endPage(reason)
      return show(status, body)
    }

    const cookieOf = (request_id: string) => `${cookie}_${request_id}`
    const browserOf = ({ cookies }: Request, request_id = "") => {
      const value = cookies[cookieOf(request_id)] ?? cookies[cookie] ?? ""
      return /^[A-Za-z0-9_-]{43}$/.test(value) ? Option.some(Redacted.make(value)) : Option.none()
    }
    const withCookie = (response: Response, name: string, value: Redacted.Redacted<string>, maxAge?: number) =>
      HttpServerResponse.setHeader(response, "set-cookie", ownCookie(name, Redacted.value(value), secure, maxAge))

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
        Effect.flatMap((view) => ask(request, 200, view)),
        Effect.catchTag("ConsentEnded", ({ reason }) => Effect.succeed(end(reason)))
      )
    })

    yield* serve("POST", "/oauth/consent", (request) =>
      Effect.gen(function* () {
        if (!isFromOwnPage(request, authUrl.origin)) return end("other_browser")
        const form = parametersOf(yield* readForm(request))
        const request_id = form.get("request") ?? ""
        const visit = { request_id, browser: browserOf(request, request_id), csrf: form.get("csrf") ?? "" }
        const decision = form.get("decision")
        if (decision === "allow" || decision === "deny") {
          const access = form.get("access") === "read" ? "read" : "write"
          const decided = consent.decide({
            ...visit,
            decision,
            access,
            token_id: form.get("token_id"),
            label: form.get("label")
          })
          return yield* decided.pipe(
            Effect.map(redirect),
            Effect.catchTag("WrongLabel", ({ page }) => ask(request, 422, page, { wrong: "label", access }))
          )
        }
        const token = Redacted.make((form.get("project_token") ?? "").trim())
        const session_id = form.get("session")
        const credential = form.get("credential")
        const answer = {
          browser: Option.getOrElse(browsers.find(request), () => Redacted.make("")),
          credential: Redacted.make(credential ?? "")
        }
        const enter = (
          browser: typeof visit.browser
        ): Effect.Effect<
          Redacted.Redacted<string>,
          Effect.Error<ReturnType<typeof consent.enterToken | typeof consent.useSession | typeof consent.usePasskey>>
        > => {
          if (credential !== undefined && passkeys !== undefined)
            return consent.usePasskey({ ...visit, browser, answer })
          return session_id !== undefined && offersSession
            ? consent.useSession({ ...visit, browser, session_id, secret: secretOf(request) })
            : consent.enterToken({ ...visit, browser, token })
        }
        const renewed = yield* enter(visit.browser).pipe(
          // A form that is sent twice was shown under the cookie of before.
          Effect.catchTag("ConsentEnded", (ended) =>
            ended.reason === "other_browser" ? enter(browserOf(request)) : ended
          ),
          (entered) =>
            countingWrong(
              entered,
              ({ _tag }) => _tag === "WrongToken" || _tag === "WrongPasskey",
              (retryAfter) => new TooManySignIns({ retryAfter })
            )
        )
        return withCookie(redirect(consentPath(request_id)), cookieOf(request_id), renewed, maxAge)
      }).pipe(
        Effect.catchTags({
          ConsentEnded: ({ reason }) => Effect.succeed(end(reason)),
          WrongToken: ({ page }) => ask(request, 422, page, { wrong: "token" }),
          WrongPasskey: ({ page, reason }) => ask(request, 422, page, { wrongPasskey: reason }),
          TooManySignIns: ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter)),
          SessionOver: ({ page }) => ask(request, 422, page, { wrong: "session" }),
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
