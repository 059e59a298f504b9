/**
 * The two metadata documents (RFC 9728 2, RFC 8414 2). Every address is the configured text: never the Host of a
 * request, and never passed through a URL parser, which would add a slash that clients compare byte by byte.
 */
import { readScopes, scopes } from "../../../wire/Scopes.ts"
import { resourceOf } from "./Resource.ts"

export interface Offered {
  /** Origins, without slash. */
  readonly base_url: string
  readonly issuer: string
  readonly registration: boolean
  readonly revocation: boolean
  readonly documents: boolean
}

export const protectedResource = ({ base_url, issuer }: Offered) => ({
  resource: resourceOf(base_url),
  authorization_servers: [issuer],
  scopes_supported: readScopes,
  bearer_methods_supported: ["header"],
  resource_documentation: `${base_url}/docs`
})

export const authorizationServer = ({ base_url, documents, issuer, registration, revocation }: Offered) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  ...(registration && { registration_endpoint: `${issuer}/register` }),
  ...(revocation && {
    revocation_endpoint: `${issuer}/revoke`,
    revocation_endpoint_auth_methods_supported: ["none"]
  }),
  response_types_supported: ["code"],
  response_modes_supported: ["query"],
  grant_types_supported: ["authorization_code", "refresh_token"],
  code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none"],
  scopes_supported: [...scopes, "offline_access"],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: documents,
  service_documentation: `${base_url}/docs`
})
