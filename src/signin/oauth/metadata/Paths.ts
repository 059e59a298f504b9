/**
 * The endpoints of the authorization server for the OpenAPI document. OAuth describes itself by its metadata (RFC 8414); this
 * is the same for tools that read OpenAPI only.
 */
import { refuse, type OAuthCode } from "../Errors.ts"
import { assertionType } from "../tokens/ClientAssertion.ts"
import { authorizationServer, type MetadataOptions, protectedResource } from "./Metadata.ts"

interface Parameter {
  readonly name: string
  readonly required?: boolean
  readonly says: string
}

const tags = ["oauth"]

const text = (says: string) => ({ type: "string", description: says })
const named = (parameters: ReadonlyArray<Parameter>) =>
  Object.fromEntries(parameters.map(({ name, says }) => [name, text(says)]))
const required = (parameters: ReadonlyArray<Parameter>) =>
  parameters.flatMap(({ name, required }) => (required ? [name] : []))

const json = (description: string, schema: object, example?: object) => ({
  description,
  content: { "application/json": { schema, ...(example && { example }) } }
})

/** The flat JSON of RFC 6749 5.2, by status. A body that is too large has the status 413 and the code `tooLarge`. */
const errors = (tooLarge: OAuthCode, ...codes: ReadonlyArray<OAuthCode>) => ({
  ...Object.fromEntries(
    Object.entries(Object.groupBy([tooLarge, ...codes], (code) => refuse(code).status)).map(([status, same]) => [
      status,
      error(same!, same!.map((code) => `${code}: ${refuse(code).message}`).join(" "))
    ])
  ),
  413: error([tooLarge], "The body is larger than 16 KiB."),
  429: error(["temporarily_unavailable"], "Too many requests; wait as long as Retry-After says.")
})

const error = (codes: ReadonlyArray<OAuthCode>, description: string) =>
  json("Error", {
    type: "object",
    properties: { error: { type: "string", enum: codes }, error_description: text(description) },
    required: ["error", "error_description"]
  })

const form = (parameters: ReadonlyArray<Parameter>, example: object) => ({
  required: true,
  content: {
    "application/x-www-form-urlencoded": {
      schema: { type: "object", properties: named(parameters), required: required(parameters) },
      example
    }
  }
})

const client: Parameter = {
  name: "client_id",
  required: true,
  says: "The client's id, or the https address of its metadata"
}
const resource: Parameter = { name: "resource", says: "The address of the MCP endpoint (RFC 8707)" }

const authorizing: ReadonlyArray<Parameter> = [
  { name: "response_type", required: true, says: "code" },
  client,
  { name: "redirect_uri", says: "One that the client registered; may be absent if it registered only one" },
  { name: "code_challenge", required: true, says: "The SHA-256 of the verifier in base64url (RFC 7636)" },
  { name: "code_challenge_method", required: true, says: "S256" },
  { name: "dpop_jkt", says: "The thumbprint of the key that the code is for (RFC 9449 10)" },
  { name: "scope", says: "Scopes with spaces between them; without any, those of a reader" },
  { name: "state", says: "Returned as it is; at most 1 KiB" },
  resource
]

const exchanging: ReadonlyArray<Parameter> = [
  { name: "grant_type", required: true, says: "authorization_code, refresh_token or client_credentials" },
  { ...client, required: false, says: `${client.says}; for client_credentials it may be absent` },
  { name: "code", says: "For authorization_code: the code from the redirect" },
  { name: "code_verifier", says: "For authorization_code: the verifier of the challenge" },
  { name: "redirect_uri", says: "For authorization_code: the one of the authorization request" },
  { name: "refresh_token", says: "For refresh_token: the latest one" },
  { name: "scope", says: "For refresh_token and client_credentials: fewer scopes, for this access token only" },
  { name: "client_assertion_type", says: `For client_credentials: ${assertionType}` },
  { name: "client_assertion", says: "For client_credentials: a JWT signed by the key of a Bridge (RFC 7523)" },
  resource
]

const tokens = {
  type: "object",
  properties: {
    access_token: text("sat_... or sba_..., opaque"),
    token_type: { type: "string", enum: ["Bearer", "DPoP"] },
    expires_in: { type: "integer", description: "Seconds" },
    refresh_token: text("srt_..., replaced at each use"),
    scope: text("What was granted")
  },
  required: ["access_token", "token_type", "expires_in", "scope"]
}

const synthetic = (kind: string) => `${kind}_${"0".repeat(48)}1`

export const oauthPaths = (options: MetadataOptions) => ({
  "/.well-known/oauth-protected-resource/mcp": {
    get: {
      tags,
      operationId: "oauth.protectedResource",
      summary: "Names the authorization server of the MCP endpoint (RFC 9728).",
      description:
        "A client finds its address in the 401 of /mcp. The scopes are those of a contributor, so that one sign-in can write if the person allows it.",
      security: [],
      responses: { 200: json("The metadata", { type: "object" }, protectedResource(options)) }
    }
  },
  "/.well-known/oauth-authorization-server": {
    get: {
      tags,
      operationId: "oauth.authorizationServer",
      summary: "Describes the authorization server (RFC 8414).",
      description:
        "The endpoints and what they support. Addresses are the configured ones, never taken from the request.",
      security: [],
      responses: { 200: json("The metadata", { type: "object" }, authorizationServer(options)) }
    }
  },
  "/authorize": {
    get: {
      tags,
      operationId: "oauth.authorize",
      summary: "Starts a sign-in in the person's browser; code and errors come with the redirect.",
      description:
        "Needs PKCE with S256. The person enters a project token or uses a passkey, decides whether the client may write, and allows or denies.",
      security: [],
      parameters: authorizing.map(({ name, required = false, says }) => ({
        name,
        in: "query",
        required,
        description: says,
        schema: { type: "string" }
      })),
      responses: {
        303: { description: "To the consent page, or to the redirect URI with `code` or `error`, `iss` and `state`" },
        400: { description: "A page: the client or its redirect URI is unknown" },
        429: { description: "A page: too many requests from this address" },
        503: { description: "A page: the database did not answer" }
      }
    }
  },
  "/token": {
    post: {
      tags,
      operationId: "oauth.token",
      summary: "Exchanges a code, a refresh token or the assertion of a Bridge for tokens.",
      description:
        "A code works once, and a refresh token is replaced at each use. If the answer to a refresh was lost, repeat the request at once: within the grace period the same successor comes back.",
      security: [],
      requestBody: form(exchanging, {
        grant_type: "refresh_token",
        client_id: synthetic("sci"),
        refresh_token: synthetic("srt")
      }),
      responses: {
        200: json("Tokens", tokens, {
          access_token: synthetic("sat"),
          token_type: "Bearer",
          expires_in: 3600,
          refresh_token: synthetic("srt"),
          scope: "context:read memory:read tasks:read documents:read"
        }),
        ...errors(
          "invalid_request",
          "invalid_grant",
          "invalid_dpop_proof",
          "unauthorized_client",
          "unsupported_grant_type",
          "invalid_scope",
          "invalid_target",
          "invalid_client",
          "server_error",
          "temporarily_unavailable"
        )
      }
    }
  },
  ...(options.registration && {
    "/register": {
      post: {
        tags,
        operationId: "oauth.register",
        summary: "Registers a public client (RFC 7591).",
        description:
          "The client gets an id and no secret. It is deleted after 30 days if nobody has ever allowed it anything.",
        security: [],
        requestBody: {
          required: true,
          content: {
            "application/json": {
              schema: {
                type: "object",
                properties: {
                  redirect_uris: { type: "array", items: { type: "string" }, minItems: 1, maxItems: 10 },
                  client_name: text("Shown on the consent page"),
                  application_type: { type: "string", enum: ["native", "web"] },
                  scope: text("The most that it may ask for")
                },
                required: ["redirect_uris"]
              },
              example: { redirect_uris: ["http://127.0.0.1/callback"], client_name: "An agent" }
            }
          }
        },
        responses: {
          201: json("The client", {
            type: "object",
            properties: { client_id: text("sci_...") },
            required: ["client_id"]
          }),
          ...errors(
            "invalid_client_metadata",
            "invalid_redirect_uri",
            "unapproved_software_statement",
            "server_error",
            "temporarily_unavailable"
          )
        }
      }
    }
  }),
  ...(options.revocation && {
    "/revoke": {
      post: {
        tags,
        operationId: "oauth.revoke",
        summary: "Revokes a token of the client (RFC 7009); with a refresh token the whole sign-in.",
        description: "A token that is unknown, or another client's, gets the same 200.",
        security: [],
        requestBody: form([{ name: "token", required: true, says: "The access or refresh token" }, client], {
          token: synthetic("srt"),
          client_id: synthetic("sci")
        }),
        responses: {
          200: { description: "It is revoked, or was never this client's" },
          ...errors(
            "invalid_request",
            "unsupported_token_type",
            "invalid_client",
            "server_error",
            "temporarily_unavailable"
          )
        }
      }
    }
  })
})
