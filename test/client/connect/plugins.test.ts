/**
 * The plugins hold what `bridge-service connect` writes, and the real programs of the clients show the server as connected.
 *
 * The programs are hundreds of megabytes, so they run only where CLIENTS names a folder that has them:
 * npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, describe, it } from "vitest"
import { hooksOf } from "../../../src/client/connect/Hooks.ts"
import { guidance } from "../../../src/client/connect/Section.ts"
import { scriptedModel } from "../../attacks/chaos/parts/clients/Model.ts"
import { makeToken, reachable } from "../../support/agents/Agent.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { folder } from "../../support/bridges/BridgeProcess.ts"
import { read } from "../../support/run/Markdown.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { Service } from "../../support/service/Service.ts"

const json = (path: string) => JSON.parse(read(path))

describe("the plugins", () => {
  it.each(["claude-code/skills/project-memory/SKILL.md", "codex/skills/project-memory/SKILL.md", "gemini/GEMINI.md"])(
    "%s tells an agent what the section tells it",
    (file) => {
      const text = read(`plugins/${file}`)
      assert.isTrue(text.endsWith(`# Project memory and tasks\n\n${guidance}\n`), file)
    }
  )

  it.each(["claude-code", "codex", "gemini"] as const)(
    "%s runs the hooks of connect --hooks, without an address",
    (client) => {
      const places = { home: "/home/ada", project: "/code/shop", platform: "linux", variables: {} } as const
      const written = hooksOf(client, "project", places, { url: "URL", tokenEnv: undefined })!.set("")
      assert.notProperty(written, "why")
      const { text } = written as { readonly text: string }
      assert.deepStrictEqual(json(`plugins/${client}/hooks/hooks.json`), JSON.parse(text.replaceAll(" --url URL", "")))
    }
  )

  it("have the version of the package", () => {
    const { version } = json("package.json")
    for (const file of [
      "claude-code/.claude-plugin/plugin.json",
      "codex/.codex-plugin/plugin.json",
      "gemini/gemini-extension.json"
    ])
      assert.strictEqual(json(`plugins/${file}`).version, version, file)
  })
})

const folderOfClients = process.env["CLIENTS"]
const installed = resolve(folderOfClients ?? "", "node_modules/.bin")
const plugins = join(packageRoot, "plugins")

/** Runs a program in a home of its own; what it prints, whatever its exit code. */
const run = (home: string, program: string, args: ReadonlyArray<string>, env: NodeJS.ProcessEnv = {}, input = "") =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number | null; readonly out: string }>((done) => {
        const variables = {
          PATH: `${installed}:${process.env["PATH"]}`,
          HOME: home,
          GEMINI_CLI_TRUST_WORKSPACE: "true"
        }
        const options = { cwd: home, env: { ...variables, ...env }, timeout: 60_000 }
        const child = execFile(program, args, options, (_, out, err) => done({ code: child.exitCode, out: out + err }))
        child.stdin!.end(input)
      })
  )

/** A folder with `bridge-service`, which the hooks run, and the Node of this test. */
const bin = mkdtempSync(join(tmpdir(), "connect-test-"))
symlinkSync(join(packageRoot, "cli/bridge-service.mjs"), join(bin, "bridge-service"))
symlinkSync(process.execPath, join(bin, "node"))
afterAll(() => rmSync(bin, { recursive: true }))

const bridgeService = [join(packageRoot, "cli/bridge-service.mjs")]

/** Every file below a folder with its content. */
const contents = (root: string) =>
  Object.fromEntries(
    (readdirSync(root, { recursive: true }) as ReadonlyArray<string>)
      .map((name) => join(root, name))
      .filter((path) => statSync(path).isFile())
      .map((path) => [path, readFileSync(path, "utf8")])
  )

const lists = {
  "claude-code": { program: "claude", scope: "user", shows: /bridge-service: .*Connected/ },
  codex: { program: "codex", scope: "user", shows: /bridge-service .*TOKEN .*enabled/ },
  gemini: { program: "gemini", scope: "user", shows: /bridge-service: .*Connected/ },
  opencode: { program: "opencode", scope: "user", shows: /bridge-service.*connected/s }
} as const

/** With an API key, and without asking whether it may trust a folder. */
const geminiSettings = JSON.stringify({
  security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } }
})

/** A session of each client with hooks, with a scripted model. */
const sessions = {
  "claude-code": (home: string, model: string, env: NodeJS.ProcessEnv) =>
    run(home, "claude", ["-p", "Go on.", "--allowedTools", "mcp__bridge-service"], {
      ...env,
      ANTHROPIC_BASE_URL: model,
      ANTHROPIC_API_KEY: "none",
      ENABLE_TOOL_SEARCH: "false",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1"
    }),
  codex: (home: string, model: string, env: NodeJS.ProcessEnv) => {
    const provider = `{name="scripted",base_url="${model}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}`
    const flags = [
      "--skip-git-repo-check",
      "--dangerously-bypass-approvals-and-sandbox",
      "--dangerously-bypass-hook-trust"
    ]
    const config = ["-m", "scripted", "-c", "model_provider=scripted", "-c", `model_providers.scripted=${provider}`]
    return run(home, "codex", ["exec", ...flags, ...config, "Go on."], { ...env, OPENAI_API_KEY: "none" })
  },
  gemini: (home: string, model: string, env: NodeJS.ProcessEnv) =>
    run(home, "gemini", ["-p", "Go on.", "--yolo", "-m", "gemini-2.5-flash"], {
      ...env,
      GEMINI_API_KEY: "none",
      GOOGLE_GEMINI_BASE_URL: model
    })
} as const

if (folderOfClients !== undefined) {
  layer(Service.layer, { timeout: 120_000 })("the programs of the clients", (it) => {
    it.effect.each(Object.keys(lists) as ReadonlyArray<keyof typeof lists>)(
      "%s shows the server that one line connected, and --remove leaves what was there",
      (client) =>
        Effect.gen(function* () {
          const service = yield* reachable()
          const { token } = yield* makeToken(service)
          const home = yield* folder
          const { program, scope, shows } = lists[client]
          const env = { TOKEN: token }
          const flags = ["--url", service.url, "--token-env", "TOKEN", "--scope", scope]
          const connect = (...more: ReadonlyArray<string>) =>
            run(home, process.execPath, [...bridgeService, "connect", client, ...flags, ...more], env)

          // The first start of a client writes files of its own.
          yield* run(home, program, ["mcp", "list"], env)
          const before = contents(home)
          assert.strictEqual((yield* connect()).code, 0)
          const written = Object.keys(contents(home)).filter((path) => contents(home)[path] !== before[path])
          assert.match((yield* run(home, program, ["mcp", "list"], env)).out, shows)
          const checked = yield* connect("--check")
          assert.strictEqual(checked.code, 0, checked.out)
          assert.strictEqual((yield* connect("--remove")).code, 0)
          for (const path of written) assert.strictEqual(contents(home)[path], before[path], path)
        }),
      120_000
    )

    it.effect.each(Object.keys(sessions) as ReadonlyArray<keyof typeof sessions>)(
      "%s begins with the snapshot, writes a note, and leaves a receipt when the hook reminds it",
      (client) =>
        Effect.gen(function* () {
          const service = yield* reachable()
          const agent = yield* Agent.make(service)
          const { id, version } = (yield* agent.write("task_create", { title: "Paint the harbour" })).output.task
          const home = yield* folder
          const env = { TOKEN: agent.token, PATH: `${bin}:${installed}:${process.env["PATH"]}` }
          const flags = ["--url", service.url, "--token-env", "TOKEN", "--hooks", "--scope", "user"]
          mkdirSync(join(home, ".gemini"))
          writeFileSync(join(home, ".gemini/settings.json"), geminiSettings)
          const connected = yield* run(home, "bridge-service", ["connect", client, ...flags], env)
          assert.strictEqual(connected.code, 0, connected.out)

          const { write_context } = agent
          const receipt = { session_ref: "harbour-1", worker: client, outcome: "handoff", summary: "Painted one side" }
          const model = yield* Effect.acquireRelease(
            Effect.promise(() =>
              scriptedModel([
                { tool: "memory_add", given: { write_context, kind: "note", body: "The paint is blue." } },
                { tool: "task_claim", given: { write_context, id, expected_version: version } },
                "done",
                {
                  tool: "task_update",
                  given: { write_context, id, expected_version: version + 1, status: "in_progress", receipt }
                }
              ])
            ),
            ({ stop }) => Effect.sync(stop)
          )
          const { out } = yield* sessions[client](home, model.url, env)
          assert.include(model.beginning(), "Where work stands in the project", out)
          assert.include(model.beginning(), "Paint the harbour", out)
          assert.include(model.results()[2], "has left no receipt", out)
          assert.include(JSON.stringify((yield* agent.call("search", { query: "paint" })).output), "The paint is blue.")
          const { output } = yield* agent.call("receipt_list", { task_id: id })
          assert.strictEqual(output.receipts[0].summary, receipt.summary)
        }),
      120_000
    )

    it.effect(
      "Claude Code validates, installs and connects its plugin",
      () =>
        Effect.gen(function* () {
          const service = yield* reachable()
          const home = yield* folder
          const claude = (...args: ReadonlyArray<string>) => run(home, "claude", args)
          for (const path of [plugins, join(plugins, "claude-code")])
            assert.include((yield* claude("plugin", "validate", "--strict", path)).out, "Validation passed")
          yield* claude("plugin", "marketplace", "add", plugins)
          const setting = ["--config", `url=${service.url}`]
          const { code, out } = yield* claude("plugin", "install", "bridge-service@bridge-service", ...setting)
          assert.strictEqual(code, 0, out)
          const { out: details } = yield* claude("plugin", "details", "bridge-service")
          assert.match(details, /Skills \(4\) {2}ask, handover, project-memory, resume/)
          assert.match(details, /Hooks \(3\) {2}SessionStart, PreCompact, Stop/)
          assert.include((yield* claude("mcp", "list")).out, `${service.url}/mcp (HTTP) - ! Needs authentication`)
        }),
      120_000
    )

    it.effect(
      "Codex installs its plugin, which brings the server",
      () =>
        Effect.gen(function* () {
          const home = yield* folder
          const codex = (...args: ReadonlyArray<string>) => run(home, "codex", args)
          yield* codex("plugin", "marketplace", "add", plugins)
          const { code, out } = yield* codex("plugin", "add", "bridge-service@bridge-service")
          assert.strictEqual(code, 0, out)
          assert.match((yield* codex("mcp", "list")).out, /bridge-service +http:\/\/127\.0\.0\.1:8787\/mcp .*enabled/)
        }),
      120_000
    )

    it.effect(
      "Gemini CLI validates and installs its extension, which brings the server",
      () =>
        Effect.gen(function* () {
          const home = yield* folder
          const gemini = (...args: ReadonlyArray<string>) => run(home, "gemini", args, {}, "y\ny\n")
          const extension = join(plugins, "gemini")
          assert.include((yield* gemini("extensions", "validate", extension)).out, "successfully validated")
          yield* gemini("extensions", "install", extension, "--consent", "--skip-settings")
          assert.include(
            (yield* gemini("mcp", "list")).out,
            "bridge-service (from bridge-service): http://127.0.0.1:8787/mcp"
          )
        }),
      120_000
    )
  })
}
