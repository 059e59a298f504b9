/** The hooks in each client's file: beside those that a person has, and removed byte for byte. */
import { assert, describe, it } from "vitest"
import type { Edited } from "../../../src/client/connect/Edit.ts"
import { hooksOf, withHooks } from "../../../src/client/connect/Hooks.ts"

const places = { home: "/home/ada", project: "/code/shop", platform: "linux", variables: {} } as const
const entry = { url: "https://bridge.example.com/mcp", tokenEnv: "TOKEN" }
const claude = hooksOf("claude-code", "project", places, entry)!

const textOf = (edited: Edited) => {
  assert.notProperty(edited, "why")
  return (edited as { readonly text: string }).text
}

const files: Readonly<Record<string, string>> = {
  "an empty file": "",
  "an empty object": "{}",
  "other settings": '{\n  "model": "m" // mine\n}\n',
  "no hooks yet": '{\n  "hooks": {}\n}\n',
  "no hook at the start yet": '{\n  "hooks": {\n    "SessionStart": []\n  }\n}\n',
  "another hook":
    '{\n  "hooks": {\n    "Stop": [\n      { "hooks": [{ "type": "command", "command": "say done" }] }\n    ]\n  }\n}\n',
  "tabs and CRLF":
    '{\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n\t\t\t{\r\n\t\t\t\t"hooks": []\r\n\t\t\t}\r\n\t\t]\r\n\t}\r\n}\r\n',
  "hooks on one line": '{"hooks":{"Stop":[{"hooks":[]},],},}'
}

describe("the hooks", () => {
  it.each(Object.entries(files))("are added to %s, and removed", (_, before) => {
    const after = textOf(claude.set(before))
    const commands = after.match(/bridge-service hook [a-z-]+ --url \S+ --token-env TOKEN 2>\/dev\/null \|\| true/g)
    assert.deepStrictEqual(commands?.map((command) => command.split(" ")[2]).toSorted(), [
      "compact",
      "session-start",
      "stop"
    ])
    assert.strictEqual(textOf(claude.set(after)), after, "repeatable")
    assert.strictEqual(textOf(claude.remove(after)), before)
  })

  it("of another address are replaced where they stand, and what stands beside them stays", () => {
    const old = hooksOf("claude-code", "project", places, { url: "https://old.example.com/mcp", tokenEnv: undefined })!
    const before = textOf(old.set(files["another hook"]!))
    const after = textOf(claude.set(before))
    assert.notInclude(after, "old.example.com")
    assert.include(after, "say done")
    assert.strictEqual(textOf(claude.remove(after)), files["another hook"])
  })

  it("are refused in a list that is none", () => {
    const why = "has something other than a list on line 2"
    assert.deepStrictEqual(claude.set('{ "hooks": {\n"SessionStart": {} } }'), { why })
  })

  it("stand where each client reads them", () => {
    const fileOf = (client: (typeof withHooks)[number], scope: "user" | "project") =>
      hooksOf(client, scope, places, entry)!.file
    assert.deepStrictEqual(
      withHooks.flatMap((client) => [fileOf(client, "project"), fileOf(client, "user")]),
      [
        "/code/shop/.claude/settings.json",
        "/home/ada/.claude/settings.json",
        "/code/shop/.codex/hooks.json",
        "/home/ada/.codex/hooks.json",
        "/code/shop/.gemini/settings.json",
        "/home/ada/.gemini/settings.json"
      ]
    )
    assert.isUndefined(hooksOf("cursor", "user", places, entry))
    const moved = { ...places, variables: { CLAUDE_CONFIG_DIR: "/etc/claude", CODEX_HOME: "/etc/codex" } }
    assert.deepStrictEqual(
      withHooks.map((client) => hooksOf(client, "user", moved, entry)!.file),
      ["/etc/claude/settings.json", "/etc/codex/hooks.json", "/home/ada/.gemini/settings.json"]
    )
  })

  it("have each client's names of the moments, and two seconds in its unit", () => {
    const hooks = withHooks.map((client) => {
      const text = textOf(hooksOf(client, "project", places, entry)!.set(""))
      const moments: Readonly<Record<string, any>> = JSON.parse(text).hooks
      return Object.entries(moments).map(([name, [{ hooks }]]) => [
        name,
        hooks[0].command.split(" ")[2],
        hooks[0].timeout
      ])
    })
    assert.deepStrictEqual(hooks, [
      [
        ["SessionStart", "session-start", 2],
        ["PreCompact", "compact", 2],
        ["Stop", "stop", 2]
      ],
      [
        ["SessionStart", "session-start", 2],
        ["Stop", "stop", 2]
      ],
      [
        ["SessionStart", "session-start", 2000],
        ["AfterAgent", "stop", 2000]
      ]
    ])
  })
})
