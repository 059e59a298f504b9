/**
 * The parameters of a query or form (OAuth 2.1 "Authorization Endpoint", "Token Endpoint"). An empty parameter counts as
 * omitted, a known one must not be repeated, and unknown ones are ignored, repeated or not.
 */

const names = [
  "client_assertion",
  "client_assertion_type",
  "client_id",
  "client_secret",
  "code",
  "code_challenge",
  "code_challenge_method",
  "code_verifier",
  "dpop_jkt",
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
  // Fields of the consent page's forms and links.
  "access",
  "credential",
  "csrf",
  "decision",
  "label",
  "other",
  "project_token",
  "session",
  "token_id"
] as const
export type ParameterName = (typeof names)[number]

export interface Parameters {
  readonly get: (name: ParameterName) => string | undefined
  /** Known parameters that were sent more than once. */
  readonly repeated: ReadonlySet<ParameterName>
  /** No name or value contains NUL, which RFC 6749 A does not allow and PostgreSQL cannot store in text. */
  readonly isText: boolean
}

export const parametersOf = (params: URLSearchParams): Parameters => {
  const sent = new Map<string, string>()
  const repeated = new Set<ParameterName>()
  let isText = true
  for (const [name, value] of params) {
    if (!sent.has(name)) sent.set(name, value)
    else if (isKnown(name)) repeated.add(name)
    if (name.includes("\0") || value.includes("\0")) isText = false
  }
  return { get: (name) => sent.get(name) || undefined, repeated, isText }
}

const known: ReadonlySet<string> = new Set(names)
const isKnown = (name: string): name is ParameterName => known.has(name)
