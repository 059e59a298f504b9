/**
 * Around every request: a request id, the database's time as `Date`, and one answer for everything that no handler
 * answered.
 *
 * Whatever ends a request (no route, a body too large, a lost database, a defect) leaves as the error object of spec
 * 2.7. A defect is logged under the request id and shown as a bare `internal_error`.
 */
import { type Cause, Clock, Context, Effect, LogLevel, Option, References, type Types } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { uuid } from "../crypto/Random.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { count, elapsed, requests, requestSeconds } from "../metrics/Metrics.ts"
import { spanned } from "../metrics/Span.ts"
import { refuse } from "../../wire/Errors.ts"
import { Caller } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { Addresses } from "./Addresses.ts"
import { report } from "./Report.ts"
import { strictUtf8 } from "./Utf8.ts"

// The router wants to see the failures of others pass through the type; here they end.
type Handled = Effect.fn.Return<
  HttpServerResponse.HttpServerResponse,
  Types.unhandled,
  HttpServerRequest.HttpServerRequest
>

export const boundary = HttpRouter.middleware(
  Effect.gen(function* () {
    const addresses = yield* Addresses
    const clock = yield* DatabaseClock
    // A client counts down to `expires_at` from it, so both have to be of one clock (RFC 9110 6.6.1).
    const date = Effect.map(
      clock.told,
      Option.match({ onNone: () => ({}), onSome: (at) => ({ date: at.toUTCString() }) })
    )
    return Effect.fnUntraced(function* (
      handled: Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled>
    ): Handled {
      const request = strictUtf8(yield* HttpServerRequest.HttpServerRequest)
      const requestId = yield* uuid
      const since = yield* Clock.monotonicTimeNanos
      const caller = {
        address: addresses.of(request),
        userAgent: withoutSecrets(request.headers["user-agent"] ?? "").slice(0, 200)
      }
      // The router would take it for "/".
      const named = request.originalUrl === "*" ? Effect.succeed(answer(refuse("not_found"))) : handled
      return yield* named.pipe(
        Effect.catchCause(answerTo),
        Effect.flatMap((response) =>
          Effect.map(date, (told) =>
            HttpServerResponse.setHeaders(inErrorShape(response), {
              ...standing(request),
              ...told,
              "x-request-id": requestId
            })
          )
        ),
        Effect.tap((response) => measure(request.method, response.status, since)),
        Effect.tap((response) => record(request, response)),
        Effect.provideService(Caller, caller),
        Effect.annotateLogs("request_id", requestId),
        spanned("Http.request", { kind: "server", attributes: { request_id: requestId } })
      )
    })
  }),
  { global: true }
)

const standing = (request: HttpServerRequest.HttpServerRequest) =>
  request.url.startsWith("/bridge/")
    ? { "x-content-type-options": "nosniff", "cache-control": "no-store" }
    : { "x-content-type-options": "nosniff" }

const answerTo = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const [response] = yield* HttpServerError.causeResponse(cause)
  if (response.status >= 500) yield* report(cause)
  return response
})

/** What the platform answers without body (404, 413) or as text (415) says the same as a refusal of ours. */
const inErrorShape = (response: HttpServerResponse.HttpServerResponse) => {
  const refusal = byStatus[response.status]
  if (refusal === undefined || (response.body._tag !== "Empty" && response.body.contentType !== "text/plain")) {
    return response
  }
  const { connection, allow } = response.headers
  return answer(refusal, { ...(connection && { connection }), ...(allow && { allow }) })
}

const byStatus: Record<number, Parameters<typeof answer>[0]> = {
  400: refuse("invalid_request"),
  404: refuse("not_found"),
  405: refuse("method_not_allowed"),
  413: refuse("payload_too_large"),
  415: refuse("unsupported_media_type"),
  500: refuse("internal_error"),
  503: refuse("bridge_persistence_error", 1)
}

/** By the template of the route: the path that was asked for can be anything. */
const measure = (method: string, status: number, since: bigint) =>
  Effect.withFiber((fiber) => {
    const route = Option.match(Context.getOption(fiber.context, HttpRouter.RouteContext), {
      onNone: () => "unknown",
      onSome: ({ route }) => route.path
    })
    // There are some thirty methods: those that a path does not serve are counted as one.
    const served = route !== "unknown" && status !== 405
    return Effect.andThen(
      count(requests(served ? method : "other", route, String(status))),
      elapsed(requestSeconds(route), since)
    )
  })

/** What nobody hears is not made: it would cost every request something. */
const record = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  response: HttpServerResponse.HttpServerResponse
) {
  const level = response.status >= 400 ? "Info" : "Debug"
  const heard = (yield* LogLevel.isEnabled(level)) || (yield* References.TracerEnabled)
  if (!heard) return
  const path = withoutSecrets(request.url.split("?")[0]!)
  const facts = { method: request.method, path, status: response.status }
  yield* Effect.logWithLevel(level)("Answered").pipe(Effect.annotateLogs(facts))
  yield* Effect.annotateCurrentSpan(facts)
})

/** Somebody will put a secret where none belongs. A word longer than a UUID is no name of ours; it is not kept. */
const withoutSecrets = (text: string) => text.replaceAll(/[^/\s]{37,}/g, "<redacted>")
