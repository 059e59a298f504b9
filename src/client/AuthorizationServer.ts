/** The authorization server of a resource (RFC 9728, RFC 8414): where it is, and what its answers mean. */
import { Data, Effect, Schema } from "effect"
import type { HttpClient, HttpClientResponse } from "effect/http"

/** The server was unreachable, or its answer did not follow the protocol. */
export class OAuthUnreachable extends Data.TaggedError("OAuthUnreachable")<{ readonly message: string }> {}

/** The answer belongs to another request or comes from another server; none of it was used. */
export class OAuthMismatch extends Data.TaggedError("OAuthMismatch")<{ readonly message: string }> {}

/** The server refused: `code` is an OAuth error code, such as access_denied. */
export class OAuthRefused extends Data.TaggedError("OAuthRefused")<{
  readonly code: string
  readonly message: string
}> {}

const ResourceMetadata = Schema.Struct({
  resource: Schema.String,
  authorization_servers: Schema.NonEmptyArray(Schema.String)
})

const ServerMetadata = Schema.Struct({
  issuer: Schema.String,
  authorization_endpoint: Schema.String,
  token_endpoint: Schema.String,
  revocation_endpoint: Schema.optional(Schema.String),
  code_challenge_methods_supported: Schema.Array(Schema.String),
  dpop_signing_alg_values_supported: Schema.optional(Schema.Array(Schema.String)),
  authorization_response_iss_parameter_supported: Schema.optional(Schema.Boolean)
})
export type ServerMetadata = typeof ServerMetadata.Type

export const TokenResponse = Schema.Struct({
  access_token: Schema.NonEmptyString,
  token_type: Schema.String,
  expires_in: Schema.Number,
  refresh_token: Schema.optional(Schema.NonEmptyString),
  scope: Schema.optional(Schema.String)
})
const ErrorResponse = Schema.Struct({ error: Schema.String, error_description: Schema.optional(Schema.String) })

export const unreachable = (message: string) => () => new OAuthUnreachable({ message })
export const mismatch = (message: string) => new OAuthMismatch({ message })

const read = <S extends Schema.ConstraintDecoder<unknown>>(http: HttpClient.HttpClient, url: string, schema: S) =>
  http.get(url, { headers: { accept: "application/json" } }).pipe(
    Effect.filterOrFail((response) => response.status === 200),
    Effect.flatMap((response) => response.json),
    Effect.flatMap(Schema.decodeUnknownEffect(schema)),
    Effect.mapError(unreachable(`${url} does not describe an authorization server.`))
  )

/** Each document's identifier has to be the URL that it was read from. */
export const discover = Effect.fnUntraced(function* (http: HttpClient.HttpClient, resource: string) {
  const { origin, pathname } = new URL(resource)
  const described = yield* read(http, `${origin}/.well-known/oauth-protected-resource${pathname}`, ResourceMetadata)
  if (described.resource !== resource) return yield* mismatch("The metadata describes a different resource.")
  const [issuer] = described.authorization_servers
  const server = yield* read(http, `${issuer}/.well-known/oauth-authorization-server`, ServerMetadata)
  if (server.issuer !== issuer)
    return yield* mismatch("The authorization server has another issuer than its metadata's URL.")
  if (!server.code_challenge_methods_supported.includes("S256")) {
    return yield* mismatch("The authorization server does not support PKCE with S256.")
  }
  return server
})

/** The failure that an answer without tokens means. */
export const refusal = (response: HttpClientResponse.HttpClientResponse) =>
  response.json.pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(ErrorResponse)),
    Effect.mapError(unreachable(`The authorization server answered ${response.status}.`)),
    Effect.flatMap(
      ({ error: code, error_description: message = "" }): Effect.Effect<never, OAuthUnreachable | OAuthRefused> =>
        response.status >= 500 || response.status === 429
          ? new OAuthUnreachable({ message })
          : new OAuthRefused({ code, message })
    )
  )
