/** Where each client reads its configuration, and what its entry looks like there. */
import { assert, describe, it } from "@effect/vitest"
import {
  type ClientName,
  clientsByName,
  helperFor,
  type Places,
  type Scope
} from "../../../src/client/connect/Clients.ts"

const linux: Places = { home: "/home/ada", project: "/code/shop", platform: "linux", variables: {} }
const mac: Places = { ...linux, home: "/Users/ada", platform: "darwin" }
const windows: Places = { ...linux, home: "/u/ada", platform: "win32", variables: { APPDATA: "/u/ada/roaming" } }
const moved: Places = {
  ...linux,
  variables: { CLAUDE_CONFIG_DIR: "/etc/claude", CODEX_HOME: "/etc/codex", XDG_CONFIG_HOME: "/etc/xdg" }
}

/** As each client documents it. The last file is the one that is made. */
const files: ReadonlyArray<readonly [client: ClientName, scope: Scope, places: Places, file: string]> = [
  ["claude-code", "project", linux, "/code/shop/.mcp.json"],
  ["claude-code", "user", linux, "/home/ada/.claude.json"],
  ["claude-code", "user", moved, "/etc/claude/.claude.json"],
  ["codex", "project", linux, "/code/shop/.codex/config.toml"],
  ["codex", "user", linux, "/home/ada/.codex/config.toml"],
  ["codex", "user", moved, "/etc/codex/config.toml"],
  ["gemini", "project", linux, "/code/shop/.gemini/settings.json"],
  ["gemini", "user", linux, "/home/ada/.gemini/settings.json"],
  ["opencode", "project", linux, "/code/shop/opencode.json"],
  ["opencode", "user", linux, "/home/ada/.config/opencode/opencode.json"],
  ["opencode", "user", moved, "/etc/xdg/opencode/opencode.json"],
  ["vscode", "project", linux, "/code/shop/.vscode/mcp.json"],
  ["vscode", "user", linux, "/home/ada/.config/Code/User/mcp.json"],
  ["vscode", "user", mac, "/Users/ada/Library/Application Support/Code/User/mcp.json"],
  ["vscode", "user", moved, "/etc/xdg/Code/User/mcp.json"],
  ["vscode", "user", windows, "/u/ada/roaming/Code/User/mcp.json"],
  ["vscode", "user", { ...windows, variables: { APPDATA: "" } }, "/u/ada/AppData/Roaming/Code/User/mcp.json"],
  ["cursor", "project", linux, "/code/shop/.cursor/mcp.json"],
  ["cursor", "user", linux, "/home/ada/.cursor/mcp.json"]
]

const url = "https://bridge.example.com/mcp"
/** Where the entry stands in the client's file, and its members with the token in the variable `TOKEN`. */
const entries: Readonly<Record<Exclude<ClientName, "codex">, readonly [under: string, entry: object]>> = {
  "claude-code": ["mcpServers", { type: "http", url, headers: { Authorization: "Bearer ${TOKEN}" } }],
  gemini: ["mcpServers", { httpUrl: url, headers: { Authorization: "Bearer ${TOKEN}" } }],
  opencode: ["mcp", { type: "remote", url, oauth: false, headers: { Authorization: "Bearer {env:TOKEN}" } }],
  vscode: ["servers", { type: "http", url, headers: { Authorization: "Bearer ${env:TOKEN}" } }],
  cursor: ["mcpServers", { url, headers: { Authorization: "Bearer ${env:TOKEN}" } }]
}

const textOf = (client: ClientName, tokenEnv: string | undefined) => {
  const edited = clientsByName[client].set("", { url, tokenEnv })
  if ("why" in edited) throw new Error(edited.why)
  return edited.text ?? ""
}

describe("a client", () => {
  for (const [client, scope, places, file] of files) {
    it(`${client} reads ${file} (${scope}, ${places.platform})`, () => {
      assert.strictEqual(clientsByName[client].files(scope, places).at(-1), file)
    })
  }

  it("opencode reads a file with comments first", () => {
    const files = clientsByName.opencode.files("project", linux)
    assert.deepStrictEqual(files, ["/code/shop/opencode.jsonc", "/code/shop/opencode.json"])
  })

  it("has its own file of instructions", () => {
    assert.deepStrictEqual(
      Object.values(clientsByName).map(({ instructions }) => instructions),
      ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "AGENTS.md", "AGENTS.md", "AGENTS.md"]
    )
  })

  for (const [client, [under, entry]] of Object.entries(entries)) {
    it(`${client} finds the address and the name of the variable`, () => {
      assert.deepStrictEqual(JSON.parse(textOf(client as ClientName, "TOKEN")), {
        [under]: { "bridge-service": entry }
      })
    })
    it(`${client} signs in by itself without a variable`, () => {
      const { headers: _, oauth: __, ...without } = entry as { headers: object; oauth?: boolean }
      assert.deepStrictEqual(JSON.parse(textOf(client as ClientName, undefined)), {
        [under]: { "bridge-service": without }
      })
    })
  }

  it("claude-code runs the command that prints its header, and drops ours when it signs in another way", () => {
    const { runsHelper, set } = clientsByName["claude-code"]
    const helper = helperFor("/var/lib/bridge")
    const text = (before: string, entry: Parameters<typeof set>[1]) => {
      const edited = set(before, entry)
      return "why" in edited ? edited.why : (edited.text ?? "")
    }
    const written = text("", { url, tokenEnv: undefined, helper })
    const { headersHelper } = JSON.parse(written).mcpServers["bridge-service"]
    assert.strictEqual(headersHelper, "bridge-service bridge token --mcp-header --json --state /var/lib/bridge")
    assert.strictEqual(text(written, { url, tokenEnv: "TOKEN" }), text("", { url, tokenEnv: "TOKEN" }))
    assert.deepStrictEqual([runsHelper, clientsByName.cursor.runsHelper], [true, false])
  })

  it("codex finds the address and the name of the variable, or signs in by itself", () => {
    const head = `[mcp_servers.bridge-service]\nurl = "${url}"\n`
    assert.strictEqual(textOf("codex", "TOKEN").trimEnd(), `${head}bearer_token_env_var = "TOKEN"`)
    assert.strictEqual(textOf("codex", undefined).trimEnd(), head.trimEnd())
  })
})
