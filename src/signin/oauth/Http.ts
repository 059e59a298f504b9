/** Serves the metadata documents, /token and, if enabled, /register and /revoke (spec 4.10). */
import { Effect, Exit, Option, Redacted } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { Attempts, boundTo, type Outcome } from "../../platform/edge/limits/Attempts.ts"
import { CompiledEdge } from "../../platform/edge/compiled/Compiled.ts"
import { presentedBy } from "../../platform/edge/Presented.ts"
import { RateLimit, takeAll } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { Refusal } from "../../wire/Refusal.ts"
import { parsed, wordsOf } from "../../wire/Scopes.ts"
import { Clients } from "./clients/Clients.ts"
import { ClientProofs, type Proven } from "../possession/ClientProofs.ts"
import { type OAuthRefusal, refuse, tooMany, unproven } from "./Errors.ts"
import { Grants } from "./grants/Grants.ts"
import {
  jsonEndpoints,
  jsonHeaders,
  readMetadataBody,
  readParameters,
  type Request,
  required
} from "./JsonEndpoints.ts"
import { authorizationServer, metadataOptions, protectedResource } from "./metadata/Metadata.ts"
import { isResource } from "./metadata/Resource.ts"
import type { Parameters } from "./Parameters.ts"
import { isVerifier } from "./Pkce.ts"
import { BridgeAccess } from "./tokens/BridgeAccess.ts"
import { assertionType } from "./tokens/ClientAssertion.ts"
import { Codes } from "./tokens/Codes.ts"
import type { IssuedTokens } from "./tokens/issueTokens.ts"
import { RefreshTokens } from "./tokens/RefreshTokens.ts"

const requestRate = { perSecond: 100, burst: 1000 }
/** Of one grant, or of one Bridge: each refresh and each assertion issues an access token. */
const refreshRate = { perSecond: 6 / 60, burst: 60 }
/** Of all grants of one project token, of which 200 are in force. */
const refreshRateOfToken = { perSecond: 2, burst: 400 }
const registrationRate = { perSecond: 1, burst: 60 }

type Prove = Effect.Effect<
  Proven | undefined,
  OAuthRefusal<"invalid_dpop_proof"> | SharedRefusal<"bridge_persistence_error">
>

export const OAuthHttp = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const { authUrl, dynamicRegistration, oauth, resource } = settings
    const clients = yield* Clients
    const codes = yield* Codes
    const grants = yield* Grants
    const refreshTokens = yield* RefreshTokens
    const bridgeAccess = yield* BridgeAccess
    const proofs = yield* ClientProofs
    const limits = yield* RateLimit
    const attempts = yield* Attempts
    const refreshes = limits.buckets(refreshRate)
    const refreshesOfTokens = limits.buckets(refreshRateOfToken)
    const { document, endpoint } = jsonEndpoints(router, yield* CompiledEdge)
    const metadata = metadataOptions(settings)

    const exchange = Effect.fnUntraced(function* (client_id: string, form: Parameters, prove: Prove) {
      const code = yield* required(form, "code")
      const verifier = yield* required(form, "code_verifier")
      if (!isVerifier(verifier)) return yield* refuse("invalid_request", "code_verifier is malformed.")
      const redirect_uri = form.get("redirect_uri")
      const credential = Redacted.make(code)
      return yield* attempts.attempt(
        { credential, outcomeOf, limited },
        Effect.flatMap(prove, (proven) =>
          codes.exchange({ client_id, code: credential, verifier, redirect_uri, proven })
        )
      )
    })

    const refresh = Effect.fnUntraced(function* (client_id: string, form: Parameters, prove: Prove) {
      const refresh_token = Redacted.make(yield* required(form, "refresh_token"))
      const words = wordsOf(form.get("scope") ?? "")
      const scopes = parsed(words)
      // An unknown scope cannot have been granted before (RFC 6749 6).
      if (scopes.length < words.size) return yield* refuse("invalid_scope")
      return yield* attempts.attempt(
        { credential: refresh_token, outcomeOf, limited },
        Effect.gen(function* () {
          const proven = yield* prove
          const held = yield* refreshTokens.grantOf({ client_id, refresh_token, proven })
          if (Option.isSome(held)) {
            const { grant_id, project_token_id } = held.value
            const wait = yield* takeAll([
              [refreshes, grant_id],
              [refreshesOfTokens, project_token_id]
            ])
            if (wait > 0) return yield* tooMany(wait)
          }
          return yield* refreshTokens.refresh({
            client_id,
            refresh_token,
            proven,
            scopes: words.size === 0 ? undefined : scopes
          })
        })
      )
    })

    const issued = (tokens: IssuedTokens) =>
      Effect.as(attempts.remember(boundTo(tokens.access_token, tokens.jkt)), tokenResponse(tokens))

    /**
     * The key that the client has proved; undefined if it sent no proof. Runs as an attempt of its credential, so that the
     * limit of its address comes before the signature.
     */
    const provenBy: (request: Request) => Prove = Effect.fnUntraced(function* (request) {
      const { method, path, proof } = presentedBy(request)
      if (proof === undefined) return undefined
      return yield* proofs
        .check(proof, { method, path, baseUrl: authUrl, tokenHash: undefined })
        .pipe(Effect.catchTag("Unproven", ({ why }) => unproven(why)))
    })

    const bridgeToken = Effect.fnUntraced(function* (form: Parameters, prove: Prove) {
      const assertion = form.get("client_assertion")
      if (assertion === undefined || form.get("client_assertion_type") !== assertionType)
        return yield* refuse(
          "invalid_client",
          `Authenticate with private_key_jwt: a client_assertion of ${assertionType}.`
        )
      const words = wordsOf(form.get("scope") ?? "")
      return yield* attempts.attempt(
        { credential: Redacted.make(assertion), outcomeOf, limited },
        Effect.gen(function* () {
          const asserted = yield* bridgeAccess.check(assertion)
          const client_id = form.get("client_id")
          if (client_id !== undefined && client_id !== asserted.client_id)
            return yield* refuse("invalid_client", "client_id is not the sub of the assertion.")
          const proven = yield* prove
          const bridge = yield* bridgeAccess.holder(asserted, proven)
          const wait = Option.isSome(bridge) ? yield* refreshes.take(bridge.value) : 0
          if (wait > 0) return yield* tooMany(wait)
          return yield* bridgeAccess.issue({
            asserted,
            proven,
            scopes: words.size === 0 ? undefined : parsed(words)
          })
        })
      )
    })

    const token = Effect.fnUntraced(function* (request: Request) {
      const form = yield* readParameters(request)
      const grant_type = form.get("grant_type")
      if (grant_type === "client_credentials") {
        yield* withoutCredentials(request)
        if (!isResource(form.get("resource"), resource)) return yield* refuse("invalid_target")
        return yield* issued(yield* bridgeToken(form, provenBy(request)))
      }
      const client_id = yield* publicClient(request, form)
      yield* required(form, "grant_type")
      if (!isResource(form.get("resource"), resource)) return yield* refuse("invalid_target")
      const prove = provenBy(request)
      switch (grant_type) {
        case "authorization_code":
          return yield* issued(yield* exchange(client_id, form, prove))
        case "refresh_token":
          return yield* issued(yield* refresh(client_id, form, prove))
        default:
          return yield* refuse("unsupported_grant_type")
      }
    })

    const revoke = Effect.fnUntraced(function* (request: Request) {
      const form = yield* readParameters(request)
      const client_id = yield* publicClient(request, form)
      const credential = Redacted.make(yield* required(form, "token"))
      yield* attempts.attempt(
        { credential, outcomeOf: outcomeOfRevocation, limited },
        grants.revokeToken(client_id, credential)
      )
      return HttpServerResponse.empty({ status: 200, headers: jsonHeaders })
    })

    const register = Effect.fnUntraced(function* (request: Request) {
      const client = yield* clients.register(yield* readMetadataBody(request))
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
        { status: 201, headers: jsonHeaders }
      )
    })

    yield* document(
      protectedResource(metadata),
      "/.well-known/oauth-protected-resource/mcp",
      "/.well-known/oauth-protected-resource"
    )
    yield* document(
      authorizationServer(metadata),
      "/.well-known/oauth-authorization-server",
      "/.well-known/oauth-authorization-server/mcp",
      "/.well-known/openid-configuration"
    )
    yield* endpoint("/token", limits.networks(requestRate), token)
    if (oauth.revocation) yield* endpoint("/revoke", limits.networks(requestRate), revoke)
    if (dynamicRegistration) yield* endpoint("/register", limits.networks(registrationRate), register)
  })
)

const limited = (seconds: number) => Effect.fail(tooMany(seconds))

/** Codes and refresh tokens work once, so none is worth remembering. */
const outcomeOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): Outcome => {
  const code = Option.getOrUndefined(Exit.findErrorOption(exit))?._tag
  return code === "invalid_grant" || code === "invalid_client" || code === "invalid_dpop_proof"
    ? "rejected"
    : "undecided"
}

/** A revocation does not tell whether it knew the token (RFC 7009 2.2), so each of them counts. */
const outcomeOfRevocation = (exit: Exit.Exit<unknown, { readonly _tag: string }>): Outcome =>
  Exit.isSuccess(exit) ? "rejected" : outcomeOf(exit)

const tokenResponse = ({ access_token, expires_in, jkt, refresh_token, scopes }: IssuedTokens) =>
  HttpServerResponse.jsonUnsafe(
    {
      access_token: Redacted.value(access_token),
      token_type: jkt === undefined ? "Bearer" : "DPoP",
      expires_in,
      ...(refresh_token !== undefined && { refresh_token: Redacted.value(refresh_token) }),
      scope: scopes.join(" ")
    },
    { headers: jsonHeaders }
  )

/** No client has a secret, so a request that sends one is rejected (RFC 6749 2.3, 5.2). */
const withoutCredentials = Effect.fnUntraced(function* ({ headers }: Request) {
  if (headers["authorization"] === undefined) return
  const refusal = refuse("invalid_client", "Clients are public: send client_id in the body and no secret.")
  const { _tag, message, status } = refusal
  return yield* new Refusal({ _tag, message, status, challenge: 'Basic realm="oauth"' })
})

/** The client id of the request. All clients but Bridges are public. */
const publicClient = Effect.fnUntraced(function* (request: Request, form: Parameters) {
  yield* withoutCredentials(request)
  if (form.get("client_secret") !== undefined || form.get("client_assertion") !== undefined) {
    return yield* refuse("invalid_client", "Clients are public: send client_id and no secret.")
  }
  return yield* required(form, "client_id")
})
