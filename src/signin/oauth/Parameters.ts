/**
 * The parameters of a request (OAuth 2.1 "Authorization Endpoint", "Token Endpoint"): an empty one counts as omitted, none
 * that is known here may come twice, and all others are ignored, however often they come.
 */

const names = [
  "client_assertion",
  "client_id",
  "client_secret",
  "code",
  "code_challenge",
  "code_challenge_method",
  "code_verifier",
  "grant_type",
  "prompt",
  "redirect_uri",
  "refresh_token",
  "request",
  "request_uri",
  "resource",
  "response_mode",
  "response_type",
  "scope",
  "state",
  "token",
  "token_type_hint",
  // Of the consent page's own forms and links.
  "csrf",
  "decision",
  "other",
  "project_token",
  "token_id"
] as const
export type ParameterName = (typeof names)[number]

export interface Parameters {
  readonly get: (name: ParameterName) => string | undefined
  /** The names that came more than once. */
  readonly repeated: ReadonlySet<ParameterName>
  /** Nothing in it is a NUL, which is in no grammar of RFC 6749 A and which PostgreSQL takes for no text. */
  readonly isText: boolean
}

export const parametersOf = (params: URLSearchParams): Parameters => {
  const repeated = new Set(names.filter((name) => params.getAll(name).length > 1))
  const isText = [...params].every((pair) => !pair.join().includes("\0"))
  return { get: (name) => params.get(name) || undefined, repeated, isText }
}
