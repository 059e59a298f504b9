/** The configuration of each client: its file in each scope, and the entry that connects it. */
import { join } from "node:path"
import * as Jsonc from "./Jsonc.ts"
import { refusal } from "./Kept.ts"
import * as Toml from "./Toml.ts"
import { type Edited, inOrder, type Unreadable } from "./Edit.ts"

export const clients = ["claude-code", "codex", "gemini", "opencode", "vscode", "cursor"] as const
export type ClientName = (typeof clients)[number]
export type Scope = "user" | "project"

/** Where files of a person are. The variables are the clients' own; empty ones count as unset. */
export interface Places {
  readonly home: string
  readonly project: string
  readonly platform: NodeJS.Platform
  readonly variables: Readonly<
    Partial<Record<"CLAUDE_CONFIG_DIR" | "CODEX_HOME" | "XDG_CONFIG_HOME" | "APPDATA", string>>
  >
}

/** Without a variable and without a command, the client signs in by OAuth. */
export interface Entry {
  readonly url: string
  /** The variable that holds the token. */
  readonly tokenEnv: string | undefined
  /** The command that prints the headers as JSON; only for a client that `runsHelper`. */
  readonly helper?: string | undefined
}

export interface Client {
  /** The file to edit; the first one that exists, otherwise the last. */
  readonly files: (scope: Scope, places: Places) => ReadonlyArray<string>
  readonly set: (text: string, entry: Entry) => Edited
  readonly remove: (text: string) => Edited
  /** The address in the entry; undefined if there is no entry. */
  readonly url: (text: string) => { readonly value: unknown } | Unreadable
  /** Whether the client can run a command that prints headers. */
  readonly runsHelper?: boolean
  /** The file in a project's folder that the client reads for instructions. */
  readonly instructions: "AGENTS.md" | "CLAUDE.md" | "GEMINI.md"
  /** How a person signs in, where no token is given. */
  readonly signIn: string
  /** What else a project's file needs before the client reads it. */
  readonly projectNote?: string
}

const name = "bridge-service"

/** Prints the header of the Bridge in a folder, which follows as one word of a shell. */
const helperProgram = "bridge-service bridge token --mcp-header --json --state"
export const helperFor = (folder: string) => `${helperProgram} ${folder}`

interface JsonEntry {
  readonly under: string
  readonly address: "url" | "httpUrl"
  /** Further members that every entry has. */
  readonly fixed?: { readonly type: string }
  /** How the client writes an environment variable. */
  readonly variable: (name: string) => string
  /** The client has to be kept from signing in while it has a token. */
  readonly withoutOAuth?: true
  readonly runsHelper?: boolean
}

const inJson = ({ address, fixed, runsHelper = false, under, variable, withoutOAuth }: JsonEntry) => {
  const at = [under, name] as const
  const sent = [...at, "headers"] as const
  return {
    runsHelper,
    set: (text: string, { helper, tokenEnv, url }: Entry): Edited => {
      const plain: Members = {
        ...fixed,
        [address]: url,
        ...(runsHelper && helper !== undefined && { headersHelper: helper }),
        ...(withoutOAuth && tokenEnv !== undefined && { oauth: false })
      }
      const headers: Members = tokenEnv === undefined ? {} : { Authorization: `Bearer ${variable(tokenEnv)}` }
      const entry: Members = tokenEnv === undefined ? plain : { ...plain, headers }
      const existing = Jsonc.get(text, at)
      if ("why" in existing) return existing
      if (existing.value === undefined) return Jsonc.set(text, at, entry)
      const members: Members = isObject(existing.value) ? existing.value : {}
      const before = members["headersHelper"]
      const isOurHelper = typeof before === "string" && before.startsWith(helperProgram)
      // What an earlier run wrote, and this one does not.
      const obsolete = [
        ...(helper === undefined && isOurHelper ? [["headersHelper"]] : []),
        ...(tokenEnv === undefined ? [["headers", "Authorization"]] : []),
        ...(withoutOAuth && tokenEnv === undefined && members["oauth"] === false ? [["oauth"]] : [])
      ]
      return (
        refusal(pathsIn(members), [...pathsIn(entry), ...obsolete]) ??
        inOrder(text, [
          ...Object.entries(plain).map(
            ([key, value]) =>
              (text: string) =>
                Jsonc.set(text, [...at, key], value)
          ),
          ...obsolete.map((path) => (text: string) => Jsonc.remove(text, [...at, ...path])),
          ...Object.entries(headers).map(
            ([key, value]) =>
              (text: string) =>
                Jsonc.set(text, [...sent, key], value)
          )
        ])
      )
    },
    remove: (text: string) => Jsonc.remove(text, at),
    url: (text: string) => Jsonc.get(text, [...at, address])
  }
}

type Members = { readonly [key: string]: Jsonc.Json }

const isObject = (value: Jsonc.Json): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The path of each member; of an object the paths of its members. */
const pathsIn = (members: Members) =>
  Object.entries(members).flatMap(([key, value]) =>
    isObject(value) ? Object.keys(value).map((inner) => [key, inner]) : [[key]]
  )

const table = ["mcp_servers", name] as const

const configFolder = ({ home, variables }: Places) => variables.XDG_CONFIG_HOME || join(home, ".config")

const codeFolder = ({ home, platform, variables }: Places) =>
  platform === "darwin"
    ? join(home, "Library", "Application Support")
    : platform === "win32"
      ? variables.APPDATA || join(home, "AppData", "Roaming")
      : variables.XDG_CONFIG_HOME || join(home, ".config")

const inHome =
  (folder: string, file: string) =>
  (scope: Scope, { home, project }: Places) => [join(scope === "user" ? home : project, folder, file)]

export const clientsByName: Readonly<Record<ClientName, Client>> = {
  "claude-code": {
    files: (scope, { home, project, variables }) => [
      scope === "project" ? join(project, ".mcp.json") : join(variables.CLAUDE_CONFIG_DIR || home, ".claude.json")
    ],
    ...inJson({
      under: "mcpServers",
      address: "url",
      fixed: { type: "http" },
      variable: (name) => `\${${name}}`,
      runsHelper: true
    }),
    instructions: "CLAUDE.md",
    signIn: "claude mcp login bridge-service",
    projectNote: "Claude Code asks once in this folder whether to use the servers of .mcp.json."
  },
  codex: {
    files: (scope, { home, project, variables }) => [
      scope === "project"
        ? join(project, ".codex", "config.toml")
        : join(variables.CODEX_HOME || join(home, ".codex"), "config.toml")
    ],
    set: (text, { tokenEnv, url }) => {
      const keys = { url, bearer_token_env_var: tokenEnv ?? null }
      const before = Toml.paths(text, table)
      if ("why" in before) return before
      const ours = Object.keys(keys).map((key) => [key])
      return refusal(before.value, ours) ?? Toml.set(text, table, keys)
    },
    remove: (text) => Toml.remove(text, table),
    url: (text) => Toml.get(text, table, "url"),
    instructions: "AGENTS.md",
    signIn: "codex mcp login bridge-service",
    projectNote: "Codex reads .codex/config.toml only in folders that it was told to trust."
  },
  gemini: {
    files: inHome(".gemini", "settings.json"),
    ...inJson({ under: "mcpServers", address: "httpUrl", variable: (name) => `\${${name}}` }),
    instructions: "GEMINI.md",
    signIn: "/mcp auth bridge-service, in a session of gemini",
    projectNote: "Gemini CLI connects only in folders that it was told to trust: /permissions, in a session."
  },
  opencode: {
    files: (scope, places) => {
      const folder = scope === "project" ? places.project : join(configFolder(places), "opencode")
      return [join(folder, "opencode.jsonc"), join(folder, "opencode.json")]
    },
    ...inJson({
      under: "mcp",
      address: "url",
      fixed: { type: "remote" },
      variable: (name) => `{env:${name}}`,
      withoutOAuth: true
    }),
    instructions: "AGENTS.md",
    signIn: "opencode mcp auth bridge-service"
  },
  vscode: {
    files: (scope, places) => [
      scope === "project"
        ? join(places.project, ".vscode", "mcp.json")
        : join(codeFolder(places), "Code", "User", "mcp.json")
    ],
    ...inJson({
      under: "servers",
      address: "url",
      fixed: { type: "http" },
      variable: (name) => `\${env:${name}}`
    }),
    instructions: "AGENTS.md",
    signIn: "Start, above the entry in mcp.json"
  },
  cursor: {
    files: inHome(".cursor", "mcp.json"),
    ...inJson({ under: "mcpServers", address: "url", variable: (name) => `\${env:${name}}` }),
    instructions: "AGENTS.md",
    signIn: "Connect, in the settings under MCP"
  }
}
