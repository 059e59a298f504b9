/**
 * What a credential of a project may do, and what each role may do at most (contract section 3).
 *
 * Writing implies reading of the same noun; the sets that are stored and handed on are always expanded.
 * `bridge:transport` is none of these: it never comes from OAuth.
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

/** What is asked for where nothing is asked for, and what a challenge names. */
export const readScopes = ["context:read", "memory:read", "tasks:read", "documents:read"] as const satisfies Scope[]

/** `mobile:devices` is in no role: it belongs to clients that an operator allowed it. */
export const ofRole = (role: Role): ReadonlyArray<Scope> =>
  role === "reader" ? readScopes : [...readScopes, "memory:write", "tasks:write"]

/** With what they imply, each once, in the order of `scopes`. */
export const expanded = (given: Iterable<string>): ReadonlyArray<Scope> => {
  const asked = new Set(given)
  return scopes.filter((scope) => asked.has(scope) || asked.has(scope.replace(/:read$/, ":write")))
}

/** The words of a `scope` (RFC 6749 3.3), each once. `offline_access` is none: it asks for nothing that a scope decides. */
export const wordsOf = (scope: string): ReadonlySet<string> => {
  const words = new Set(scope.split(" "))
  words.delete("")
  words.delete("offline_access")
  return words
}

/** Words that name no scope are left out. */
export const parsed = (words: ReadonlySet<string>): ReadonlyArray<Scope> => scopes.filter((scope) => words.has(scope))
