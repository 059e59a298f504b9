/**
 * The JSON endpoints of OAuth: metadata, /token, /revoke and /register. They are plain routes because RFCs define their
 * responses, unlike the API's own. Every error, whatever the cause, is OAuth's error JSON (RFC 6749 5.2).
 *
 * CORS is open to every origin: the endpoints read no cookie, so a foreign page gains nothing by calling them.
 */
import { Cause, Effect, Option } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { CompiledEdge } from "../../platform/edge/compiled/Compiled.ts"
import { type FormError, isTooLarge, readForm } from "../../platform/edge/Form.ts"
import { methods } from "../../platform/edge/routes/Methods.ts"
import type { NetworkBuckets } from "../../platform/edge/limits/RateLimit.ts"
import { isTransient, report } from "../../platform/edge/Report.ts"
import { Caller } from "../../wire/Headers.ts"
import { Refusal } from "../../wire/Refusal.ts"
import { type OAuthRefusal, refuse, tooMany } from "./Errors.ts"
import { type ParameterName, type Parameters, parametersOf } from "./Parameters.ts"

export type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

const anyOrigin = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "WWW-Authenticate, Retry-After, X-Request-Id"
}
export const jsonHeaders = { ...anyOrigin, "cache-control": "no-store", pragma: "no-cache" }

export const jsonEndpoints = (router: HttpRouter.HttpRouter, edge: CompiledEdge["Service"]) => {
  /** Serves one method and its CORS preflight; other methods get 405. */
  const serve = Effect.fnUntraced(function* (
    path: HttpRouter.PathInput,
    method: "GET" | "POST",
    handle: (request: Request) => Effect.Effect<Response, never, Request>
  ) {
    const allow = method === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS"
    yield* router.add(method, path, handle)
    yield* edge.add(method, path, Effect.flatMap(HttpServerRequest.HttpServerRequest, handle))
    yield* router.add("OPTIONS", path, preflight(allow))
    const refusal = errorResponse(refuse("invalid_request", `Use ${method} here.`), { status: 405, headers: { allow } })
    const others = methods.filter((name) => name !== method && name !== "OPTIONS")
    yield* router.addAll(others.map((other) => HttpRouter.route(other, path, Effect.succeed(refusal))))
  })

  /** Serves the same static JSON at every path. */
  const document = (content: unknown, ...paths: ReadonlyArray<HttpRouter.PathInput>) => {
    const response = HttpServerResponse.jsonUnsafe(content, {
      headers: { ...anyOrigin, "cache-control": "max-age=300" }
    })
    return Effect.forEach(paths, (path) => serve(path, "GET", () => Effect.succeed(response)))
  }

  const endpoint = (
    path: HttpRouter.PathInput,
    buckets: NetworkBuckets,
    handle: (request: Request) => Effect.Effect<Response, unknown, Request>
  ) =>
    serve(path, "POST", (request) =>
      Effect.gen(function* () {
        const { network } = yield* Caller
        const wait = yield* buckets.take(network)
        return wait === 0 ? yield* handle(request) : yield* tooMany(wait)
      }).pipe(Effect.catchCause(failureResponse))
    )

  return { document, endpoint }
}

const preflight = (allow: string) =>
  HttpServerResponse.empty({
    status: 204,
    headers: {
      ...anyOrigin,
      "access-control-allow-methods": allow,
      "access-control-allow-headers": "Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version",
      "access-control-max-age": "86400"
    }
  })

const errorResponse = (
  { _tag, challenge, message, retryAfter, status }: OAuthRefusal,
  overrides: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {}
) =>
  HttpServerResponse.jsonUnsafe(
    { error: _tag, error_description: message },
    {
      status: overrides.status ?? status,
      headers: {
        ...jsonHeaders,
        ...(challenge !== undefined && { "www-authenticate": challenge }),
        ...(retryAfter !== undefined && { "retry-after": String(retryAfter) }),
        ...overrides.headers
      }
    }
  )

const failureResponse = (cause: Cause.Cause<unknown>): Effect.Effect<Response> => {
  if (isTransient(cause)) {
    return Effect.succeed(errorResponse(refuse("temporarily_unavailable"), { headers: { "retry-after": "1" } }))
  }
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  return failure instanceof Refusal
    ? Effect.succeed(errorResponse(failure as OAuthRefusal))
    : Effect.as(report(cause), errorResponse(refuse("server_error")))
}

/** Reads the form of a request; rejects repeated parameters. */
export const readParameters = Effect.fnUntraced(function* (request: Request) {
  const form = parametersOf(yield* readForm(request).pipe(Effect.catchTag("FormError", formRefusal)))
  if (form.repeated.has("resource")) return yield* refuse("invalid_target", "Tokens are for one resource at a time.")
  if (form.repeated.size > 0) return yield* refuse("invalid_request", "A parameter was sent more than once.")
  if (!form.isText) return yield* refuse("invalid_request", "A parameter holds a NUL.")
  return form
})

const formRefusal = ({ reason }: FormError) => {
  const sentence = {
    media_type: "Send the parameters as application/x-www-form-urlencoded.",
    too_large: "The request body is too large.",
    unreadable: "The request body could not be read."
  }
  const refusal = refuse("invalid_request", sentence[reason])
  return reason === "too_large" ? tooLarge(refusal) : refusal
}

const tooLarge = ({ _tag, message }: OAuthRefusal) => new Refusal({ _tag, message, status: 413 })

export const readMetadataBody = (request: Request) => {
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    return Effect.fail(refuse("invalid_client_metadata", "Send the metadata as application/json."))
  }
  return Effect.mapError(request.json, (error) => {
    const refusal = refuse("invalid_client_metadata", "The metadata is not JSON, or too large.")
    return isTooLarge(error) ? tooLarge(refusal) : refusal
  })
}

export const required = (form: Parameters, name: ParameterName) =>
  Option.match(Option.fromUndefinedOr(form.get(name)), {
    onNone: () => Effect.fail(refuse("invalid_request", `${name} is required.`)),
    onSome: Effect.succeed<string>
  })
