/**
 * The hooks that connect an agent's session to the service: in the clients that have them, `bridge-service hook EVENT` runs
 * when a session starts, before its conversation is compacted, and when the agent stops (src/client/hook).
 */
import { join } from "node:path"
import { inOrder } from "./Edit.ts"
import * as Jsonc from "./Jsonc.ts"
import type { ClientName, Entry, Places, Scope } from "./Clients.ts"
import type { Event } from "../hook/Event.ts"

interface Kind {
  readonly file: (scope: Scope, places: Places) => string
  /** The client's name of each event. */
  readonly events: Readonly<Partial<Record<Event, string>>>
  /** Two seconds, in the client's unit: the hook itself ends earlier. */
  readonly timeout: number
}

const kinds: Readonly<Partial<Record<ClientName, Kind>>> = {
  "claude-code": {
    file: (scope, { home, project, variables }) =>
      scope === "project"
        ? join(project, ".claude", "settings.json")
        : join(variables.CLAUDE_CONFIG_DIR || join(home, ".claude"), "settings.json"),
    events: { "session-start": "SessionStart", compact: "PreCompact", stop: "Stop" },
    timeout: 2
  },
  // What a hook says before a compaction reaches neither Codex's agent nor Gemini's; Codex starts a session after it.
  codex: {
    file: (scope, { home, project, variables }) =>
      scope === "project"
        ? join(project, ".codex", "hooks.json")
        : join(variables.CODEX_HOME || join(home, ".codex"), "hooks.json"),
    events: { "session-start": "SessionStart", stop: "Stop" },
    timeout: 2
  },
  gemini: {
    file: (scope, { home, project }) => join(scope === "project" ? project : home, ".gemini", "settings.json"),
    events: { "session-start": "SessionStart", stop: "AfterAgent" },
    timeout: 2000
  }
}

export const withHooks = Object.keys(kinds) as ReadonlyArray<ClientName>

const program = "bridge-service hook"

/** Says nothing and succeeds where the program is not installed, such as at a colleague's. */
export const commandOf = (event: Event, { tokenEnv, url }: Entry) =>
  `${program} ${event} --url ${url}${tokenEnv === undefined ? "" : ` --token-env ${tokenEnv}`} 2>/dev/null || true`

const isOurs = (value: Jsonc.Json): boolean => JSON.stringify(value).includes(`"command":"${program} `)

export const hooksOf = (client: ClientName, scope: Scope, places: Places, entry: Entry) => {
  const kind = kinds[client]
  if (kind === undefined) return undefined
  const { events, file, timeout } = kind
  const paths = Object.entries(events).map(([event, name]): readonly [Event, Jsonc.Path] => [
    event as Event,
    ["hooks", name, { item: isOurs }, "hooks", { item: isOurs }]
  ])
  return {
    file: file(scope, places),
    set: (text: string) =>
      inOrder(
        text,
        paths.map(
          ([event, path]) =>
            (text: string) =>
              Jsonc.set(text, path, { type: "command", command: commandOf(event, entry), timeout })
        )
      ),
    remove: (text: string) =>
      inOrder(
        text,
        paths.toReversed().map(
          ([, path]) =>
            (text: string) =>
              Jsonc.remove(text, path)
        )
      )
  }
}
