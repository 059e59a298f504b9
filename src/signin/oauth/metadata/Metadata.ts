/**
 * The two metadata documents (RFC 9728 2, RFC 8414 2).
 *
 * Every URL is built from configured text, never from the Host header, and never passes through a URL parser: a parser
 * would append a slash to the issuer, and clients compare it byte by byte.
 */
import { assertionAlgorithms } from "../tokens/ClientAssertion.ts"
import type { Settings } from "../../../platform/settings/Settings.ts"
import { dpopAlgorithms } from "../../possession/ClientProofs.ts"
import { ofRole, scopes } from "../../../wire/Scopes.ts"

export interface MetadataOptions {
  /** The base URL and the issuer are origins, without a trailing slash. */
  readonly base_url: string
  readonly issuer: string
  readonly resource: string
  /** Whether /register, /revoke and client metadata documents are enabled. */
  readonly registration: boolean
  readonly revocation: boolean
  readonly client_documents: boolean
}

export const metadataOptions = ({
  authUrl,
  baseUrl,
  dynamicRegistration,
  oauth,
  resource
}: Settings["Service"]): MetadataOptions => ({
  base_url: baseUrl.origin,
  issuer: authUrl.origin,
  resource,
  registration: dynamicRegistration,
  revocation: oauth.revocation,
  client_documents: oauth.cimd !== "off"
})

export const protectedResource = ({ base_url, issuer, resource }: MetadataOptions) => ({
  resource,
  authorization_servers: [issuer],
  // Clients ask for all of these: one sign-in can write, if the person's role can and the person allows it.
  scopes_supported: ofRole("contributor"),
  bearer_methods_supported: ["header"],
  dpop_signing_alg_values_supported: dpopAlgorithms,
  resource_documentation: `${base_url}/docs`
})

export const authorizationServer = ({
  base_url,
  client_documents,
  issuer,
  registration,
  revocation
}: MetadataOptions) => ({
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
  grant_types_supported: ["authorization_code", "refresh_token", "client_credentials"],
  code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none", "private_key_jwt"],
  token_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
  dpop_signing_alg_values_supported: dpopAlgorithms,
  scopes_supported: [...scopes, "offline_access"],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: client_documents,
  service_documentation: `${base_url}/docs`
})
