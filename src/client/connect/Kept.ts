/**
 * Which keys of an entry stay when `connect` completes it. The entry may have come with a repository, from anybody, and
 * clients learn further keys that run a program or send a token elsewhere. So keys that are not known are refused.
 */
import type { Unreadable } from "./Edit.ts"

/** None of these runs a program, adds to what is sent, or changes where it goes. */
const harmless = new Set([
  "name",
  "description",
  "type",
  // Whether the client connects, and how long it waits
  "enabled",
  "disabled",
  "required",
  "alwaysLoad",
  "timeout",
  "startup_timeout_sec",
  "startup_timeout_ms",
  "tool_timeout_sec",
  // Which tools it shows, and which it calls without asking
  "includeTools",
  "excludeTools",
  "enabled_tools",
  "disabled_tools",
  "omit_tools_from",
  "supports_parallel_tool_calls",
  "trust",
  "alwaysAllow",
  "autoApprove",
  "default_tools_approval_mode",
  "tools",
  // As which client it signs in, and for what
  "scopes",
  "auth.CLIENT_ID",
  "auth.scopes",
  "oauth.enabled",
  "oauth.clientId",
  "oauth.client_id",
  "oauth.callbackPort",
  "oauth.callback_port",
  "oauth.scope",
  "oauth.scopes"
])

/** Keys whose members count one by one. */
const groups = ["auth", "headers", "oauth"]

const nameOf = ([first = "", second]: ReadonlyArray<string>) =>
  groups.includes(first) && second !== undefined ? `${first}.${second}` : first

type Paths = ReadonlyArray<ReadonlyArray<string>>

/** Refuses an entry that has keys, each given as its path below the entry, which are neither harmless nor `ours`. */
export const refusal = (paths: Paths, ours: Paths): Unreadable | undefined => {
  const own = ours.map(nameOf)
  const others = [...new Set(paths.map(nameOf))].filter((name) => !harmless.has(name) && !own.includes(name))
  if (others.length === 0) return undefined
  const listed = others.map((name) => JSON.stringify(name)).join(", ")
  return {
    why: `has keys in its entry bridge-service that could run a program or send a token elsewhere: ${listed}`,
    remedy: "Remove these keys, or the whole entry with --remove, and run this again."
  }
}
