/**
 * Validates an authorization request, once its client and redirect URI have been checked (RFC 6749 4.1.1, RFC 7636 4.3,
 * RFC 8707 2). From here on an error is returned to the client by redirect.
 */
import { Result } from "effect"
import { bytesIn } from "../../../platform/proofs/Jwt.ts"
import { expanded, parsed, readScopes, type Scope, wordsOf } from "../../../wire/Scopes.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { isResource } from "../metadata/Resource.ts"
import type { Parameters } from "../Parameters.ts"
import { isChallenge } from "../Pkce.ts"

export interface AuthorizationRequest {
  readonly code_challenge: string
  /** The thumbprint of the key that the code is for; null: of any. */
  readonly dpop_jkt: Uint8Array | null
  /** Expanded, limited to the scopes that the client is allowed, never empty. */
  readonly scopes: ReadonlyArray<Scope>
}

/** Bytes. A client uses `state` to recognise its own request; it is stored until the person decides. */
const maxState = 1024

/** The value of `state` that an answer returns: none if it was repeated or is too long, because it is not kept then. */
export const returnable = ({ get, repeated }: Parameters): string | undefined => {
  const state = get("state")
  return repeated.has("state") || isTooLong(state) ? undefined : state
}

const isTooLong = (state = "") => Buffer.byteLength(state) > maxState

const invalid = (sentence: string) => Result.fail(refuse("invalid_request", sentence))

export const readAuthorizationRequest = (
  { get, repeated }: Parameters,
  allowed: ReadonlyArray<Scope>,
  resource: string
): Result.Result<AuthorizationRequest, OAuthRefusal> => {
  if (repeated.has("resource")) return Result.fail(refuse("invalid_target", "Tokens are for one resource at a time."))
  if (repeated.size > 0) return invalid("A parameter was sent more than once.")
  if (isTooLong(get("state"))) return invalid("state is longer than 1 KiB.")
  if (get("request") !== undefined) return Result.fail(refuse("request_not_supported"))
  if (get("request_uri") !== undefined) return Result.fail(refuse("request_uri_not_supported"))

  const type = get("response_type")
  if (type === undefined) return invalid("response_type is required.")
  if (type !== "code") return Result.fail(refuse("unsupported_response_type"))
  if ((get("response_mode") ?? "query") !== "query") return invalid("Supported is response_mode=query.")

  const code_challenge = get("code_challenge")
  if (code_challenge === undefined) return invalid("code_challenge is required (PKCE).")
  // An omitted method would mean `plain` (RFC 7636 4.3).
  if (get("code_challenge_method") !== "S256") return invalid("code_challenge_method has to be S256.")
  if (!isChallenge(code_challenge)) return invalid("code_challenge is not the base64url of a SHA-256.")

  const jkt = get("dpop_jkt")
  const dpop_jkt = jkt === undefined ? null : bytesIn(jkt)
  if (dpop_jkt !== null && dpop_jkt?.length !== 32)
    return invalid("dpop_jkt is not the base64url of a SHA-256 (RFC 9449 10).")

  if (!isResource(get("resource"), resource)) return Result.fail(refuse("invalid_target"))

  const scopes = grantable(get("scope"), allowed)
  if (scopes.length === 0) return Result.fail(refuse("invalid_scope"))
  // prompt=none asks for no interaction, but there is no session: a person always decides.
  if (get("prompt")?.split(" ").includes("none")) return Result.fail(refuse("access_denied"))
  return Result.succeed({ code_challenge, dpop_jkt, scopes })
}

/**
 * The requested scopes that the client is allowed. The default is the read scopes, or all allowed scopes if no read
 * scope is allowed. Unknown words are ignored.
 */
const grantable = (requested: string | undefined, allowed: ReadonlyArray<Scope>) => {
  const words = wordsOf(requested ?? "")
  if (words.size > 0) return expanded(parsed(words)).filter((scope) => allowed.includes(scope))
  const readable = readScopes.filter((scope) => allowed.includes(scope))
  return readable.length > 0 ? readable : allowed
}
