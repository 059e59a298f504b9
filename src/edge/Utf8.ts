/** A body of JSON is UTF-8 (RFC 8259 8.1). The platform would put U+FFFD where it is not, and take the rest for the request. */
import { Effect } from "effect"
import { HttpServerError, type HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"

/** The same request, whose `text` fails as malformed where the bytes are no UTF-8. */
export const strictUtf8 = (request: HttpServerRequest.HttpServerRequest): HttpServerRequest.HttpServerRequest =>
  Object.create(request, {
    text: {
      value: Effect.flatMap(request.arrayBuffer, (bytes) =>
        isUtf8(bytes) ? request.text : Effect.fail(malformed(request))
      )
    }
  })

const malformed = (request: HttpServerRequest.HttpServerRequest) =>
  new HttpServerError.HttpServerError({ reason: new HttpServerError.RequestParseError({ request, reason: "Parse" }) })
