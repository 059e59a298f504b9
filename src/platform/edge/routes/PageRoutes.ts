/** Routes that answer people: with a page whatever happens, rate limits and failures included. */
import { Effect, Exit } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Caller } from "../../../wire/Headers.ts"
import { RateLimit } from "../limits/RateLimit.ts"
import { isTransient, report } from "../Report.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

const requestRate = { perSecond: 20, burst: 200 }
/** Wrong secrets that a person entered, per address; valid ones are not counted. */
const wrongSecretRate = { perSecond: 20 / 60, burst: 20 }

/** `headers` go with every answer; `failure` is the page for a request that was limited or has failed. */
export const pageRoutes = Effect.fnUntraced(function* (
  router: HttpRouter.HttpRouter,
  headers: Readonly<Record<string, string>>,
  failure: (reason: "busy" | "failed") => { readonly status: number; readonly body: string }
) {
  const limits = yield* RateLimit
  const requests = limits.networks(requestRate)
  const wrongSecrets = limits.networks(wrongSecretRate)

  const takeWrong = Effect.flatMap(Caller, ({ network }) => wrongSecrets.take(network))
  /**
   * Tries a secret, and counts it if it was wrong or the browser left before that was known. `limited` answers a wrong one of
   * which there were too many. No wrong ones of a neighbour keep a valid one out; `requests` bounds how many are tried.
   */
  const countingWrong = <A, E, R>(
    attempt: Effect.Effect<A, E, R>,
    isWrong: (error: E) => boolean,
    limited: (seconds: number) => Effect.Effect<A, E>
  ): Effect.Effect<A, E, R> =>
    attempt.pipe(
      Effect.onExit((exit) => (Exit.hasInterrupts(exit) ? takeWrong : Effect.void)),
      Effect.catch((error) =>
        isWrong(error)
          ? Effect.flatMap(takeWrong, (wait) => (wait > 0 ? limited(wait) : Effect.fail(error)))
          : Effect.fail(error)
      )
    )

  const show = (status: number, body: string, retryAfter = status === 503 ? 5 : undefined): Response =>
    HttpServerResponse.text(body, {
      status,
      headers: { ...headers, ...(retryAfter !== undefined && { "retry-after": String(retryAfter) }) },
      contentType: "text/html; charset=utf-8"
    })
  const fail = (reason: "busy" | "failed", retryAfter?: number) => {
    const { body, status } = failure(reason)
    return show(status, body, retryAfter)
  }
  /** A 303, so that the browser never sends a form, which may hold a secret, to another address. */
  const redirect = (location: string): Response => HttpServerResponse.redirect(location, { status: 303, headers })

  const serve = (
    method: "GET" | "POST",
    path: HttpRouter.PathInput,
    handle: (request: Request) => Effect.Effect<Response, unknown, Request | HttpRouter.RouteContext>
  ) =>
    router.add(method, path, (request) =>
      Effect.gen(function* () {
        const { network } = yield* Caller
        const wait = yield* requests.take(network)
        return wait === 0 ? yield* handle(request) : fail("busy", wait)
      }).pipe(Effect.catchCause((cause) => Effect.as(isTransient(cause) ? Effect.void : report(cause), fail("failed"))))
    )

  return { countingWrong, fail, redirect, serve, show }
})

/** A cookie of this browser only: no script and no other site can read it, and with https no other host can set it. */
export const ownCookie = (name: string, value: string, isSecure: boolean, maxAge?: number): string =>
  `${name}=${value}; Path=/; HttpOnly; SameSite=Lax${isSecure ? "; Secure" : ""}${maxAge === undefined ? "" : `; Max-Age=${maxAge}`}`

export const queryOf = ({ url }: Request): string => {
  const mark = url.indexOf("?")
  return mark < 0 ? "" : url.slice(mark + 1)
}

/** Whether a page of ours sent the form. Every browser names the origin of a form; without one the answer is no. */
export const isFromOwnPage = ({ headers }: Request, origin: string): boolean =>
  headers["origin"] === origin && ["same-origin", "none"].includes(headers["sec-fetch-site"] ?? "none")
