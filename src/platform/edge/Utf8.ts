/** A body of JSON is UTF-8 (RFC 8259 8.1). The platform would put U+FFFD where it is not, and take the rest for the request. */
import { Effect } from "effect"
import { HttpServerError, type HttpServerRequest } from "effect/http"

const decoder = new TextDecoder("utf-8", { fatal: true })

/**
 * From now on the request's `text` fails as malformed where the bytes are no UTF-8. The request itself is changed: reading
 * from one that only inherits from it is several times as dear.
 */
export const strictUtf8 = (request: HttpServerRequest.HttpServerRequest): HttpServerRequest.HttpServerRequest => {
  const bytes = Effect.suspend(() => request.arrayBuffer)
  const text = Effect.flatMap(bytes, (bytes) =>
    Effect.try({ try: () => decoder.decode(bytes), catch: () => malformed(request) })
  )
  return Object.defineProperty(request, "text", { value: text })
}

const malformed = (request: HttpServerRequest.HttpServerRequest) =>
  new HttpServerError.HttpServerError({ reason: new HttpServerError.RequestParseError({ request, reason: "Parse" }) })
