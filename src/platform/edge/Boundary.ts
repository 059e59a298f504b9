/**
 * Wraps every request: adds a request id and the database's time as `Date`, and answers failures that no handler answers.
 *
 * Each of them (no route, a body too large, a lost database, a defect) becomes the error object of spec 2.7; a browser
 * that finds no route gets a page. A defect is logged with the request id, and the client sees only `internal_error`.
 */
import { NodeHttpServerRequest } from "@effect/platform-node"
import { type Cause, Clock, Context, Effect, type Fiber, Layer, LogLevel, Option, References, type Types } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { uuid } from "../crypto/Random.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { logFault } from "../database/FaultLog.ts"
import { CurrentShare, Shares } from "../database/Shares.ts"
import { notFoundPage, pageHeaders } from "../html/Page.ts"
import { requests, requestSeconds } from "../metrics/Metrics.ts"
import { Settings } from "../settings/Settings.ts"
import { refuse } from "../../wire/Errors.ts"
import { Caller } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { escaped } from "../../wire/Text.ts"
import { Addresses, networkOf, siteOf } from "./Addresses.ts"
import { makeFloodPauses, RoomToWait } from "./limits/Floods.ts"
import { PageLimit } from "./limits/PageLimit.ts"
import { RateLimit } from "./limits/RateLimit.ts"
import { report } from "./Report.ts"
import { strictUtf8 } from "./Utf8.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** The template of the route that served a request; undefined if there is none. */
type TemplateOf = (fiber: Fiber.Fiber<unknown, unknown>) => string | undefined

export class Boundary extends Context.Service<
  Boundary,
  {
    readonly around: (
      templateOf: TemplateOf
    ) => <E, R>(handled: Effect.Effect<Response, E, R>) => Effect.Effect<Response, never, R | Request>
  }
>()("service/edge/Boundary") {
  static readonly layer = Layer.effect(
    Boundary,
    Effect.gen(function* () {
      const addresses = yield* Addresses
      const clock = yield* DatabaseClock
      const shares = yield* Shares
      const { authUrl, baseUrl } = yield* Settings
      // Whatever a browser asks for first, it then refuses http for a year (RFC 6797).
      const secure = [authUrl, baseUrl].every(({ protocol }) => protocol === "https:")
      const fixedHeaders = {
        "x-content-type-options": "nosniff",
        ...(secure && { "strict-transport-security": "max-age=31536000" })
      }
      const limited = yield* PageLimit
      const free = (yield* RateLimit).networks(freeRate)
      const flood = makeFloodPauses(yield* RoomToWait)
      const record = yield* recorder
      const trace = yield* tracer

      const answered = Effect.fnUntraced(function* <E, R>(
        request: Request,
        requestId: string,
        since: bigint,
        templateOf: TemplateOf,
        handled: Effect.Effect<Response, E, R>
      ) {
        const given = yield* Effect.catchCause(handled, answerTo)
        const template = yield* Effect.withFiber((fiber) => Effect.succeed(templateOf(fiber)))
        const response = template === undefined ? yield* limited(Effect.succeed(given)) : given
        // Clients compare `Date` with `expires_at`, so both have to come from one clock (RFC 9110 6.6.1).
        const date = yield* clock.nowIfKnown
        const complete = HttpServerResponse.setHeaders(inErrorShape(request, response), {
          ...fixedHeaders,
          ...(request.url.startsWith("/bridge/") && uncached),
          ...(Option.isSome(date) && { date: date.value.toUTCString() }),
          "x-request-id": requestId
        })
        dropBody(request)
        const { network } = yield* Caller
        const asked = NodeHttpServerRequest.toIncomingMessage(request)
        let mayStay = true
        if (complete.status === 429) mayStay = yield* flood.waitIfMany(network, asked)
        else if (needsNoCredential(template, request, complete) && (yield* free.take(network)) > 0) {
          mayStay = yield* flood.wait(network, asked)
        }
        yield* measure(template, request.method, complete.status, since)
        yield* record(request, complete)
        return mayStay ? complete : last(request, complete)
      })

      return {
        around:
          (templateOf) =>
          <E, R>(handled: Effect.Effect<Response, E, R>) =>
            Effect.gen(function* () {
              const request = strictUtf8(yield* HttpServerRequest.HttpServerRequest)
              const requestId = yield* uuid
              const since = yield* Clock.monotonicTimeNanos
              const address = addresses.of(request)
              const network = networkOf(address)
              const userAgent = loggable(request.headers["user-agent"] ?? "")
              return yield* answered(request, requestId, since, templateOf, handled).pipe(
                trace(requestId),
                Effect.updateContext((context: Context.Context<R>) =>
                  context.pipe(
                    Context.add(Caller, { address, network, userAgent }),
                    Context.add(CurrentShare, shares.unknown(siteOf(network) ?? network)),
                    Context.add(References.CurrentLogAnnotations, {
                      ...Context.get(context, References.CurrentLogAnnotations),
                      request_id: requestId
                    })
                  )
                )
              )
            })
      }
    })
  )
}

/** Around every route of the router. */
export const boundary = HttpRouter.middleware(
  Effect.map(Boundary, ({ around }) => {
    const bounded = around(({ context }) =>
      Option.getOrUndefined(Option.map(Context.getOption(context, HttpRouter.RouteContext), ({ route }) => route.path))
    )
    // The router's type expects unhandled failures to pass through. `answerTo` handles them all.
    return (handled: Effect.Effect<Response, Types.unhandled>): Effect.Effect<Response, Types.unhandled, Request> =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ originalUrl }) =>
        // The router would treat "*" as "/".
        bounded(originalUrl === "*" ? Effect.succeed(answer(refuse("not_found"))) : handled)
      )
  }),
  { global: true }
)

const uncached = { "cache-control": "no-store" }

/** Of one address. What is beyond is answered late, never refused: it may come from a load balancer, or from many agents. */
const freeRate = { perSecond: 100, burst: 1000 }

/**
 * Probes, preflights, metadata of OAuth, and refusals: most of these come before a credential is looked up. A conflict (409)
 * does not: its caller was let in by a credential, or by the limit of enrollment. All else is limited per credential, or by
 * its route.
 */
const needsNoCredential = (template = "", { method }: Request, { status }: Response) =>
  (status >= 400 && status < 500 && status !== 409) ||
  method === "OPTIONS" ||
  template.startsWith("/.well-known/") ||
  probes.includes(template)
const probes = ["/healthz", "/readyz"]

/** Drops the body that the library keeps with the request: while an answer waits, no limit of memory counts it. */
const dropBody = (request: Request) => Object.assign(request, { arrayBufferEffect: undefined, textEffect: undefined })

/**
 * The answer, as the last one of its connection. Behind others that wait (pipelining) it would take memory as long as they
 * do: then the connection is closed without it.
 */
const last = (request: Request, response: Response) => {
  const { req, socket } = NodeHttpServerRequest.toServerResponse(request)
  if (socket === null) req.socket.destroy()
  return HttpServerResponse.setHeader(response, "connection", "close")
}

const answerTo = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const [response] = yield* HttpServerError.causeResponse(cause)
  if (response.status >= 500) yield* report(cause)
  return response
})

/**
 * The library answers some failures without a body (404, 413) or as text (415). They get the body of our refusals; a
 * browser gets a page instead where there is nothing, except where only programs ask.
 */
const inErrorShape = (
  { headers: { accept }, url }: HttpServerRequest.HttpServerRequest,
  response: HttpServerResponse.HttpServerResponse
) => {
  const refusal = byStatus[response.status]
  if (refusal === undefined || (response.body._tag !== "Empty" && response.body.contentType !== "text/plain")) {
    return response
  }
  if (response.status === 404 && accept?.includes("text/html") && !isForPrograms(url)) return nowhere
  return answer(refusal)
}

/** Where no page is, whatever a program accepts: HTTP clients of Java name text/html unless they are told otherwise. */
const isForPrograms = (url: string) => /^\/(?:\.well-known|bridge|operator)\//.test(url)

const nowhere = HttpServerResponse.text(notFoundPage, {
  status: 404,
  contentType: "text/html; charset=utf-8",
  headers: { ...pageHeaders, vary: "Accept" }
})

const byStatus: Record<number, Parameters<typeof answer>[0]> = {
  400: refuse("invalid_request"),
  404: refuse("not_found"),
  413: refuse("payload_too_large"),
  415: refuse("unsupported_media_type"),
  500: refuse("internal_error"),
  503: refuse("bridge_persistence_error", 1)
}

/** Labelled by the route's template, not by the path: clients choose paths. */
const measure = (template = "unknown", method: string, status: number, since: bigint) =>
  Effect.contextWith((context: Context.Context<never>) => {
    // Methods that the path does not serve share one label; Node knows about thirty.
    const served = template !== "unknown" && status !== 405
    const now = Context.get(context, Clock.Clock).monotonicTimeNanosUnsafe()
    requests(served ? method : "other", template, String(status)).updateUnsafe(1, context)
    requestSeconds(template).updateUnsafe(Number(now - since) / 1e9, context)
    return Effect.void
  })

/** Lines about refusals, of one address and of all together; of further ones only their number is logged. */
const lineRate = { perSecond: 20, burst: 200 }
const allLinesRate = { perSecond: 100, burst: 1000 }
/** Characters of a path or user agent that are kept. */
const longestLogged = 200

/** A span without the URL and the headers, which can hold secrets; nothing if no spans are exported. */
const tracer = Effect.map(
  References.TracerEnabled,
  (exported) =>
    (requestId: string) =>
    <A, E, R>(handled: Effect.Effect<A, E, R>) =>
      exported
        ? Effect.withSpan(handled, "Http.request", { kind: "server", attributes: { request_id: requestId } })
        : handled
)

/** Skips log lines and attributes that neither a log nor a span consumes; building them would slow every request. */
const recorder = Effect.gen(function* () {
  const limits = yield* RateLimit
  const lines = limits.networks(lineRate)
  const allLines = limits.buckets(allLinesRate)
  const traced = yield* References.TracerEnabled
  const consumed = {
    Info: traced || (yield* LogLevel.isEnabled("Info")),
    Debug: traced || (yield* LogLevel.isEnabled("Debug"))
  }

  const record = Effect.fnUntraced(function* (level: "Info" | "Debug", request: Request, response: Response) {
    const { address, network } = yield* Caller
    const path = loggable(request.url.split("?", 1)[0]!)
    const facts = { method: request.method, path, status: response.status, address, ...codeOf(response) }
    // While the database is away every request is answered like this; its cause has lines of its own.
    if (response.status === 503) yield* logFault("Answered", { status: 503, ...codeOf(response) })
    else if (level === "Info" && (yield* lines.take(network)) > 0) {
      yield* logFault("Answered", { status: response.status, network: siteOf(network) ?? network, ...codeOf(response) })
    } else if (level === "Info" && (yield* allLines.take("")) > 0) {
      yield* logFault("Answered", { status: response.status, ...codeOf(response) })
    } else yield* Effect.logWithLevel(level)("Answered").pipe(Effect.annotateLogs(facts))
    yield* Effect.annotateCurrentSpan(facts)
  })

  return (request: Request, response: Response) => {
    const level = response.status >= 400 ? "Info" : "Debug"
    return consumed[level] ? record(level, request, response) : Effect.void
  }
})

/** The code of a refusal: in our error object, OAuth's (where `error` is text) or JSON-RPC's (a number). Pages have none. */
const codeOf = ({ body, status }: HttpServerResponse.HttpServerResponse): { readonly code?: string } => {
  if (status < 400 || body._tag !== "Uint8Array" || !body.contentType.startsWith("application/json")) return {}
  const error = JSON.parse(new TextDecoder().decode(body.body))?.error
  const code = typeof error === "object" ? error?.code : error
  return code === undefined ? {} : { code: String(code) }
}

/**
 * A path or user agent as it may be logged and recorded: clients put secrets into both by mistake, and no word of ours is
 * longer than a UUID; what a terminal obeys is escaped.
 */
const loggable = (text: string) => {
  // Before it is escaped, which takes ten times as long for each character. The lookbehind lets a word be read once, and not
  // from each of its characters.
  const kept = text.replaceAll(/(?<![^/\s])[^/\s]{37,}/g, "<redacted>").slice(0, longestLogged)
  return escaped(kept, "line").slice(0, longestLogged)
}
