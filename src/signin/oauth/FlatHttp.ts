/**
 * How the endpoints of OAuth speak: plain routes, because RFCs fix what they answer and not the JSON contract of the
 * other endpoints. Every error is OAuth's flat JSON, whatever it was that failed. Browsers may read the answers from
 * anywhere: they carry no cookie and open nothing without a secret.
 */
import { Cause, Effect, Option } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type FormError, isTooLarge, readForm } from "../../platform/edge/Form.ts"
import { methods } from "../../platform/edge/Methods.ts"
import { type Rate, RateLimit } from "../../platform/edge/RateLimit.ts"
import { isTransient, report } from "../../platform/edge/Report.ts"
import { Caller } from "../../wire/Headers.ts"
import { Refusal } from "../../wire/Refusal.ts"
import { type OAuthRefusal, refuse } from "./Errors.ts"
import { type ParameterName, type Parameters, parametersOf } from "./Parameters.ts"

export type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

const anyOrigin = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "WWW-Authenticate, Retry-After, X-Request-Id"
}
export const flatHeaders = { ...anyOrigin, "cache-control": "no-store", pragma: "no-cache" }

export const flatRoutes = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter) {
  const limits = yield* RateLimit

  /** One method and its preflight; 405 for the others. */
  const serve = Effect.fnUntraced(function* (
    path: HttpRouter.PathInput,
    method: "GET" | "POST",
    handle: (request: Request) => Effect.Effect<Response, never, Request>
  ) {
    const allow = method === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS"
    yield* router.add(method, path, handle)
    yield* router.add("OPTIONS", path, preflight(allow))
    const refusal = flat(refuse("invalid_request", `Use ${method} here.`), { status: 405, headers: { allow } })
    const others = methods.filter((name) => name !== method && name !== "OPTIONS")
    yield* router.addAll(others.map((other) => HttpRouter.route(other, path, Effect.succeed(refusal))))
  })

  /** The same content at every path. */
  const document = (content: unknown, ...paths: ReadonlyArray<HttpRouter.PathInput>) => {
    const response = HttpServerResponse.jsonUnsafe(content, {
      headers: { ...anyOrigin, "cache-control": "max-age=300" }
    })
    return Effect.forEach(paths, (path) => serve(path, "GET", () => Effect.succeed(response)))
  }

  const endpoint = (
    path: HttpRouter.PathInput,
    rate: Rate,
    handle: (request: Request) => Effect.Effect<Response, unknown, Request>
  ) =>
    serve(path, "POST", (request) =>
      Effect.gen(function* () {
        const { address } = yield* Caller
        const wait = yield* limits.take(`${path} ${address}`, rate)
        return wait === 0
          ? yield* handle(request)
          : flat(refuse("temporarily_unavailable"), { status: 429, headers: { "retry-after": String(wait) } })
      }).pipe(Effect.catchCause(answerTo))
    )

  return { document, endpoint }
})

const preflight = (allow: string) =>
  HttpServerResponse.empty({
    status: 204,
    headers: {
      ...anyOrigin,
      "access-control-allow-methods": allow,
      "access-control-allow-headers": "Authorization, Content-Type, Accept, MCP-Protocol-Version",
      "access-control-max-age": "86400"
    }
  })

const flat = (
  { _tag, challenge, message, status }: OAuthRefusal,
  given: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {}
) =>
  HttpServerResponse.jsonUnsafe(
    { error: _tag, error_description: message },
    {
      status: given.status ?? status,
      headers: { ...flatHeaders, ...(challenge !== undefined && { "www-authenticate": challenge }), ...given.headers }
    }
  )

const answerTo = (cause: Cause.Cause<unknown>): Effect.Effect<Response> => {
  if (isTransient(cause)) {
    return Effect.succeed(flat(refuse("temporarily_unavailable"), { headers: { "retry-after": "1" } }))
  }
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  return failure instanceof Refusal
    ? Effect.succeed(flat(failure as OAuthRefusal))
    : Effect.as(report(cause), flat(refuse("server_error")))
}

/** The parameters of a form, each that is known once. */
export const readParameters = Effect.fnUntraced(function* (request: Request) {
  const form = parametersOf(yield* readForm(request).pipe(Effect.catchTag("FormError", unread)))
  if (form.repeated.has("resource")) return yield* refuse("invalid_target", "Tokens are for one resource at a time.")
  if (form.repeated.size > 0) return yield* refuse("invalid_request", "A parameter was sent more than once.")
  if (!form.isText) return yield* refuse("invalid_request", "A parameter holds a NUL.")
  return form
})

const unread = ({ reason }: FormError) => {
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
