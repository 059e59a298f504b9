/**
 * How a bearer credential arrives and what WWW-Authenticate says when it does not do (RFC 6750 2.1 and 3, RFC 9728 5.1).
 *
 * One challenge a response, every value a quoted string, each attribute once: clients parse no more than that.
 */
import { Option, Redacted } from "effect"
import { readScopes, type Scope } from "../../wire/Scopes.ts"

/** None when no bearer credential came; whether it is any good is not looked at here. */
export const credentialOf = (authorization: string | undefined): Option.Option<Redacted.Redacted<string>> => {
  const [, credential = ""] = /^bearer +(.*)$/i.exec((authorization ?? "").trim()) ?? []
  return credential === "" ? Option.none() : Option.some(Redacted.make(credential))
}

/** `base_url` is the origin that clients were configured with, never the Host of a request. */
export const challenges = (base_url: string) => {
  const resource_metadata = `${base_url}/.well-known/oauth-protected-resource/mcp`
  const scope = readScopes.join(" ")
  return {
    missing: bearer({ resource_metadata, scope }),
    /** The same for malformed, unknown, expired, revoked and foreign tokens (spec 5). */
    invalid: bearer({
      error: "invalid_token",
      error_description: "The access token is invalid",
      resource_metadata,
      scope
    }),
    /** Every scope that the operation needs, whichever of them are there already. */
    insufficient: (needed: ReadonlyArray<Scope>) =>
      bearer({
        error: "insufficient_scope",
        error_description: "The access token lacks a scope that this operation needs",
        scope: needed.join(" "),
        resource_metadata
      })
  }
}

const bearer = (attributes: Readonly<Record<string, string>>) =>
  `Bearer ${Object.entries(attributes)
    .map(([name, value]) => `${name}="${value.replaceAll(/["\\]/g, "\\$&")}"`)
    .join(", ")}`
