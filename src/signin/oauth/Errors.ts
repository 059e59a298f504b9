/**
 * The error codes of OAuth (RFC 6749 4.1.2.1, 5.2; RFC 7009 2.2.1; RFC 7591 3.2.2; RFC 8707 2), and those of the
 * operator's commands. /token, /register and /revoke answer with OAuth's error JSON, /authorize with a redirect or a page.
 */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, Refusal, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  /** The default sentence; `refuse` takes another where the cause is known. */
  invalid_request: [400, "The request is malformed."],
  invalid_client: [401, "The client is unknown or disabled."],
  /** One answer for unknown, expired, used, revoked and other clients' codes, and for a wrong verifier or redirect_uri. */
  invalid_grant: [400, "The code or token is not valid; authorize again."],
  /** RFC 9449 5. */
  invalid_dpop_proof: [400, "The DPoP proof is not valid."],
  unauthorized_client: [400, "The client is not registered for this grant type."],
  unsupported_grant_type: [400, "Supported are authorization_code, refresh_token and client_credentials."],
  unsupported_response_type: [400, "Supported is response_type=code."],
  invalid_scope: [400, "None of these scopes can be granted, or one was not granted before."],
  invalid_target: [400, "The resource is not the one that this server issues tokens for."],
  access_denied: [400, "The request was denied."],
  request_not_supported: [400, "The request parameter is not supported."],
  request_uri_not_supported: [400, "The request_uri parameter is not supported."],
  unsupported_token_type: [400, "Only access and refresh tokens of this server can be revoked here."],
  invalid_redirect_uri: [400, "No redirect URI is usable: https, http to a loopback address, or a private-use scheme."],
  invalid_client_metadata: [400, "The client metadata is not acceptable."],
  unapproved_software_statement: [400, "Software statements are not supported."],
  temporarily_unavailable: [503, "The service is busy; try again later."],
  server_error: [500, "The service failed."]
} as const

export type OAuthCode = keyof typeof table
export type OAuthRefusal<Code extends OAuthCode = OAuthCode> = RefusalOf<typeof table, Code>

const { codes, refuse: byTable } = fromTable(table)
export { codes }

export const refuse = <Code extends OAuthCode>(code: Code, sentence?: string): OAuthRefusal<Code> => {
  const refusal = byTable(code)
  return sentence === undefined
    ? refusal
    : (new Refusal({ _tag: code, status: refusal.status, message: sentence }) as OAuthRefusal<Code>)
}

export const unproven = (why: string) => refuse("invalid_dpop_proof", `The DPoP proof is refused: ${why}.`)
export const proofUsed = unproven("it was used before")

/** A rate limit; `seconds` is Retry-After. */
export const tooMany = (seconds: number) => {
  const { _tag, message } = byTable("temporarily_unavailable")
  return new Refusal({ _tag, message, status: 429, retryAfter: seconds }) as OAuthRefusal<"temporarily_unavailable">
}

const operatorTable = {
  ...sharedTable,
  project_not_found: projectTable.project_not_found,
  oauth_client_not_found: [404, "There is no such OAuth client; see list-oauth-clients."],
  oauth_grant_not_found: [404, "There is no such OAuth grant; see list-oauth-grants."],
  redirect_uri_not_allowed: [
    400,
    "Redirect URIs are https, http to 127.0.0.1, [::1] or localhost, or a private-use scheme with a dot; web clients have https only."
  ]
} as const

export type OAuthOperatorRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseOperator } = fromTable(operatorTable)
