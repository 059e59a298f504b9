/**
 * The scopes of a project's credentials, and the most that each role allows (decisions.md, Roles and scopes).
 *
 * A write scope implies the read scope of the same noun. Scope sets are expanded before they are stored or compared, so
 * that a set means the same everywhere. `bridge:transport` is not listed: OAuth never grants it.
 */
import { Schema } from "effect"

export const scopes = [
  "context:read",
  "memory:read",
  "memory:write",
  "tasks:read",
  "tasks:write",
  "documents:read",
  "mobile:devices"
] as const
export const Scope = Schema.Literals(scopes)
export type Scope = typeof Scope.Type

export const Role = Schema.Literals(["reader", "contributor"])
export type Role = typeof Role.Type

/** The default of a request without `scope`. */
export const readScopes = ["context:read", "memory:read", "tasks:read", "documents:read"] as const satisfies Scope[]

/** No role includes `mobile:devices`: an operator allows it to a client (decisions.md, mobile:devices). */
export const ofRole = (role: Role): ReadonlyArray<Scope> => (role === "reader" ? readScopes : contributorScopes)

const contributorScopes: ReadonlyArray<Scope> = scopes.filter((scope) => scope !== "mobile:devices")

/** Scopes that a person may take away at consent. */
export const isWrite = (scope: Scope): boolean => scope.endsWith(":write")

/** Adds the implied read scopes; each scope once, in the order of `scopes`. */
export const expanded = (given: Iterable<string>): ReadonlyArray<Scope> => {
  const requested = new Set(given)
  return scopes.filter((scope) => requested.has(scope) || requested.has(scope.replace(/:read$/, ":write")))
}

/** The words of a `scope` parameter (RFC 6749 3.3), each once. `offline_access` is dropped: refresh tokens need no scope. */
export const wordsOf = (scope: string): ReadonlySet<string> => {
  const words = new Set(scope.split(" "))
  words.delete("")
  words.delete("offline_access")
  return words
}

/** Ignores words that are not scopes. */
export const parsed = (words: ReadonlySet<string>): ReadonlyArray<Scope> => scopes.filter((scope) => words.has(scope))
