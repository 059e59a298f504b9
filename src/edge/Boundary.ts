/**
 * Around every request: a request id, and one answer for everything that no handler answered.
 *
 * Whatever ends a request (no route, a body too large, a lost database, a defect) leaves as the error object of spec
 * 2.7. A defect is logged under the request id and shown as a bare `internal_error`.
 */
import { type Cause, Effect, Option, type Types } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { uuid } from "../crypto/Random.ts"
import { findToken } from "../crypto/Tokens.ts"
import { databaseLoss } from "../database/Persistence.ts"
import { refuse } from "../wire/Errors.ts"
import { Caller } from "../wire/Headers.ts"
import { answer } from "../wire/Refusal.ts"
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
    return Effect.fnUntraced(function* (
      handled: Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled>
    ): Handled {
      const request = yield* HttpServerRequest.HttpServerRequest
      const requestId = yield* uuid
      const caller = {
        address: addresses.of(request),
        userAgent: withoutToken(request.headers["user-agent"] ?? "").slice(0, 200)
      }
      return yield* handled.pipe(
        Effect.catchCause(answerTo),
        Effect.map((response) =>
          HttpServerResponse.setHeaders(inErrorShape(response), { ...standing(request), "x-request-id": requestId })
        ),
        Effect.tap((response) => record(request, response)),
        Effect.provideService(HttpServerRequest.HttpServerRequest, strictUtf8(request)),
        Effect.provideService(Caller, caller),
        Effect.annotateLogs("request_id", requestId),
        Effect.withSpan("Http.request", { kind: "server", attributes: { request_id: requestId } })
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
  const lost = databaseLoss(cause)
  if (Option.isSome(lost)) return answer(lost.value)
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

const record = (request: HttpServerRequest.HttpServerRequest, response: HttpServerResponse.HttpServerResponse) => {
  const path = withoutToken(request.url.split("?")[0]!)
  const facts = { method: request.method, path, status: response.status }
  const log = response.status >= 400 ? Effect.logInfo : Effect.logDebug
  return log("Answered").pipe(Effect.annotateLogs(facts), Effect.tap(Effect.annotateCurrentSpan(facts)))
}

/** Somebody will put a token where none belongs; it is not kept there. */
const withoutToken = (text: string) => (findToken(text) === undefined ? text : "<redacted>")
