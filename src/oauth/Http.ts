/**
 * Metadata, /token and, where they are enabled, /register and /revoke (spec 4.10).
 *
 * Plain routes: what they answer is fixed by RFCs, not by the JSON contract of the other endpoints. Every error is
 * OAuth's flat JSON, whatever it was that failed. Browsers may read the answers from anywhere: they carry no cookie and
 * open nothing without a secret.
 */
import { Cause, Effect, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Settings } from "../Config.ts"
import { type FormError, isTooLarge, readForm } from "../edge/Form.ts"
import { methods } from "../edge/Methods.ts"
import { type Rate, RateLimit } from "../edge/RateLimit.ts"
import { isPassing, report } from "../edge/Report.ts"
import { Caller } from "../wire/Headers.ts"
import { Refusal } from "../wire/Refusal.ts"
import { parsed } from "../wire/Scopes.ts"
import { Clients } from "./Clients.ts"
import { type OAuthRefusal, refuse } from "./Errors.ts"
import { Grants, type TokenSet } from "./Grants.ts"
import { authorizationServer, protectedResource } from "./Metadata.ts"
import { type Parameters, parametersOf } from "./Parameters.ts"
import { isVerifier } from "./Pkce.ts"
import { isResource } from "./Resource.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

const everybody = { perSecond: 100, burst: 1000 }
const registrations = { perSecond: 1, burst: 60 }

export const OAuthHttp = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { authUrl, baseUrl, dynamicRegistration, oauth } = yield* Settings
    const clients = yield* Clients
    const grants = yield* Grants
    const limits = yield* RateLimit
    const offered = {
      base_url: baseUrl.origin,
      issuer: authUrl.origin,
      registration: dynamicRegistration,
      revocation: oauth.revocation,
      documents: oauth.cimd !== "off"
    }

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
        }).pipe(Effect.catchCause(flatAnswerTo))
      )

    const exchange = Effect.fnUntraced(function* (client_id: string, form: Parameters) {
      const code = yield* required(form, "code")
      const verifier = yield* required(form, "code_verifier")
      if (!isVerifier(verifier)) return yield* refuse("invalid_request", "code_verifier is malformed.")
      return yield* grants.exchange({
        client_id,
        code: Redacted.make(code),
        verifier,
        redirect_uri: form.get("redirect_uri")
      })
    })

    const refresh = Effect.fnUntraced(function* (client_id: string, form: Parameters) {
      const refresh_token = Redacted.make(yield* required(form, "refresh_token"))
      const scope = form.get("scope")
      const scopes = scope === undefined ? undefined : parsed(scope)
      if (scopes?.length === 0) return yield* refuse("invalid_scope")
      return yield* grants.refresh({ client_id, refresh_token, scopes })
    })

    const token = Effect.fnUntraced(function* (request: Request) {
      const form = yield* readParameters(request)
      const client_id = yield* publicClient(request, form)
      const grant_type = yield* required(form, "grant_type")
      if (!isResource(form.get("resource"), baseUrl.origin)) return yield* refuse("invalid_target")
      switch (grant_type) {
        case "authorization_code":
          return tokenResponse(yield* exchange(client_id, form))
        case "refresh_token":
          return tokenResponse(yield* refresh(client_id, form))
        default:
          return yield* refuse("unsupported_grant_type")
      }
    })

    const revoke = Effect.fnUntraced(function* (request: Request) {
      const form = yield* readParameters(request)
      const client_id = yield* publicClient(request, form)
      yield* grants.revokeToken(client_id, Redacted.make(yield* required(form, "token")))
      return HttpServerResponse.empty({ status: 200, headers: flatHeaders })
    })

    const register = Effect.fnUntraced(function* (request: Request) {
      const client = yield* clients.register(yield* readJson(request))
      return HttpServerResponse.jsonUnsafe(
        {
          client_id: client.client_id,
          client_id_issued_at: Math.floor(client.created_at.getTime() / 1000),
          client_name: client.name,
          redirect_uris: client.redirect_uris,
          ...(client.application_type !== null && { application_type: client.application_type }),
          grant_types: client.grant_types,
          response_types: ["code"],
          token_endpoint_auth_method: "none",
          scope: client.scopes.join(" ")
        },
        { status: 201, headers: flatHeaders }
      )
    })

    yield* document(
      protectedResource(offered),
      "/.well-known/oauth-protected-resource/mcp",
      "/.well-known/oauth-protected-resource"
    )
    yield* document(
      authorizationServer(offered),
      "/.well-known/oauth-authorization-server",
      "/.well-known/oauth-authorization-server/mcp",
      "/.well-known/openid-configuration"
    )
    yield* endpoint("/token", everybody, token)
    if (oauth.revocation) yield* endpoint("/revoke", everybody, revoke)
    if (dynamicRegistration) yield* endpoint("/register", registrations, register)
  })
)

const anyOrigin = { "access-control-allow-origin": "*" }
const flatHeaders = { ...anyOrigin, "cache-control": "no-store", pragma: "no-cache" }

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

const flatAnswerTo = (cause: Cause.Cause<unknown>): Effect.Effect<Response> => {
  if (isPassing(cause)) {
    return Effect.succeed(flat(refuse("temporarily_unavailable"), { headers: { "retry-after": "1" } }))
  }
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  return failure instanceof Refusal
    ? Effect.succeed(flat(failure as OAuthRefusal))
    : Effect.as(report(cause), flat(refuse("server_error")))
}

const tokenResponse = ({ access_token, expires_in, refresh_token, scopes }: TokenSet) =>
  HttpServerResponse.jsonUnsafe(
    {
      access_token: Redacted.value(access_token),
      token_type: "Bearer",
      expires_in,
      ...(refresh_token !== undefined && { refresh_token: Redacted.value(refresh_token) }),
      scope: scopes.join(" ")
    },
    { headers: flatHeaders }
  )

const readParameters = Effect.fnUntraced(function* (request: Request) {
  const form = parametersOf(yield* readForm(request).pipe(Effect.catchTag("FormError", unread)))
  if (form.repeated.has("resource")) return yield* refuse("invalid_target", "Tokens are for one resource at a time.")
  if (form.repeated.size > 0) return yield* refuse("invalid_request", "A parameter was sent more than once.")
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

const readJson = (request: Request) => {
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    return Effect.fail(refuse("invalid_client_metadata", "Send the metadata as application/json."))
  }
  return Effect.mapError(request.json, (error) => {
    const refusal = refuse("invalid_client_metadata", "The metadata is not JSON, or too large.")
    return isTooLarge(error) ? tooLarge(refusal) : refusal
  })
}

const required = (form: Parameters, name: string) =>
  Option.match(Option.fromUndefinedOr(form.get(name)), {
    onNone: () => Effect.fail(refuse("invalid_request", `${name} is required.`)),
    onSome: Effect.succeed<string>
  })

/** Every client is public: who tries to authenticate takes itself for another (RFC 6749 2.3, 5.2). */
const publicClient = Effect.fnUntraced(function* ({ headers }: Request, form: Parameters) {
  if (headers["authorization"] !== undefined) {
    const refusal = refuse("invalid_client", "Clients are public: send client_id in the body and no secret.")
    const { _tag, message, status } = refusal
    return yield* new Refusal({ _tag, message, status, challenge: 'Basic realm="oauth"' })
  }
  if (form.get("client_secret") !== undefined || form.get("client_assertion") !== undefined) {
    return yield* refuse("invalid_client", "Clients are public: send client_id and no secret.")
  }
  return yield* required(form, "client_id")
})
