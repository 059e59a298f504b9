/**
 * The part of an authorization request that is judged after client and redirect URI are known (RFC 6749 4.1.1, RFC 7636
 * 4.3, RFC 8707 2): from here on an error goes back to the client.
 */
import { Result } from "effect"
import { expanded, parsed, readScopes, type Scope, wordsOf } from "../../../wire/Scopes.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import type { Parameters } from "../Parameters.ts"
import { isChallenge } from "./Pkce.ts"
import { isResource } from "../metadata/Resource.ts"

export interface AuthorizeRequest {
  readonly code_challenge: string
  /** Expanded, and cut to what the client may have; never empty. */
  readonly scopes: ReadonlyArray<Scope>
}

const invalid = (sentence: string) => Result.fail(refuse("invalid_request", sentence))

export const readRequest = (
  { get, repeated }: Parameters,
  allowed: ReadonlyArray<Scope>,
  base_url: string
): Result.Result<AuthorizeRequest, OAuthRefusal> => {
  if (repeated.has("resource")) return Result.fail(refuse("invalid_target", "Tokens are for one resource at a time."))
  if (repeated.size > 0) return invalid("A parameter was sent more than once.")
  if (get("request") !== undefined) return Result.fail(refuse("request_not_supported"))
  if (get("request_uri") !== undefined) return Result.fail(refuse("request_uri_not_supported"))

  const type = get("response_type")
  if (type === undefined) return invalid("response_type is required.")
  if (type !== "code") return Result.fail(refuse("unsupported_response_type"))
  if ((get("response_mode") ?? "query") !== "query") return invalid("Supported is response_mode=query.")

  const code_challenge = get("code_challenge")
  if (code_challenge === undefined) return invalid("code_challenge is required (PKCE).")
  // Left out it would mean plain (RFC 7636 4.3).
  if (get("code_challenge_method") !== "S256") return invalid("code_challenge_method has to be S256.")
  if (!isChallenge(code_challenge)) return invalid("code_challenge is not the base64url of a SHA-256.")

  if (!isResource(get("resource"), base_url)) return Result.fail(refuse("invalid_target"))

  const scopes = grantable(get("scope"), allowed)
  if (scopes.length === 0) return Result.fail(refuse("invalid_scope"))
  // There is no session to continue silently: a person always decides.
  if (get("prompt")?.split(" ").includes("none")) return Result.fail(refuse("access_denied"))
  return Result.succeed({ code_challenge, scopes })
}

/** Nothing asked: the reading scopes, or all that a client may have whose scopes are others. Unknown words are left out. */
const grantable = (asked: string | undefined, allowed: ReadonlyArray<Scope>) => {
  const words = wordsOf(asked ?? "")
  if (words.size > 0) return expanded(parsed(words)).filter((scope) => allowed.includes(scope))
  const usual = readScopes.filter((scope) => allowed.includes(scope))
  return usual.length > 0 ? usual : allowed
}
