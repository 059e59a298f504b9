/** How each client signs in and calls a tool, with everything at its default. */
import type { spawn } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as pause } from "node:timers/promises"
import type { Package } from "./Programs.ts"
import { scriptedModel, type ToolCall } from "./Model.ts"
import { type Desk, type Outcome, run } from "./Person.ts"

/** The credentials that a client is given: none, a project token that it sends directly, or an operator's client. */
export interface Given {
  readonly header?: string
  readonly client_id?: string
}

export interface RealClient {
  readonly package: Package
  /** Signs in; absent if a call does. */
  readonly signIn?: (desk: Desk, url: string, given: Given) => Promise<Outcome>
  /** Calls tools in order; returns an output for each that was called. */
  readonly call: (
    desk: Desk,
    url: string,
    calls: ReadonlyArray<ToolCall>,
    given: Given
  ) => Promise<ReadonlyArray<string>>
  /** What the operator registers where clients do not register themselves; undefined if the client takes no client id. */
  readonly redirect_uri?: string
}

/** For clients that call one tool a run. */
const oneByOne =
  (call: (desk: Desk, url: string, call: ToolCall, given: Given) => Promise<Outcome>): RealClient["call"] =>
  async (desk, url, calls, given) => {
    const outputs: Array<string> = []
    for (const each of calls) outputs.push((await call(desk, url, each, given)).output)
    return outputs
  }

/** For clients whose tools a model calls: runs a session with a scripted one. */
const inSession =
  (session: (desk: Desk, url: string, model: string, given: Given) => Promise<Outcome>): RealClient["call"] =>
  async (desk, url, calls, given) => {
    const model = await scriptedModel(calls)
    const { output } = await session(desk, url, model.url, given)
    model.stop()
    const results = model.results()
    return results.length < calls.length ? [...results, output] : results
  }

/** Speaks MCP over a child's stdin and stdout: opens a session, calls one tool and ends. */
const callOver =
  ({ given, tool }: ToolCall) =>
  async (child: ReturnType<typeof spawn>) => {
    const send = (message: object) => child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
    const clientInfo = { name: "chaos", version: "1" }
    send({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } })
    for await (const line of createInterface(child.stdout!)) {
      const id = /"id":(\d)/.exec(line)?.[1]
      if (id === "1") {
        send({ method: "notifications/initialized" })
        send({ id: 2, method: "tools/call", params: { name: tool, arguments: given } })
      }
      if (id === "2") break
    }
    child.kill()
  }

/** Writes a client's configuration. */
const configure = ({ home }: Desk, path: string, settings: object) => {
  mkdirSync(dirname(join(home, path)), { recursive: true })
  writeFileSync(join(home, path), JSON.stringify(settings))
}

const words = (line: string) => line.split(" ")
const bearer = (header: string) => `Authorization: Bearer ${header}`
const prompt = "Do what the model says."

export const realClients: ReadonlyArray<RealClient> = [
  {
    package: "mcp-remote",
    redirect_uri: "http://localhost/oauth/callback",
    call: oneByOne((desk, url, call, { client_id, header }) =>
      run(
        desk,
        "mcp-remote",
        [
          url,
          ...(header === undefined ? [] : ["--header", bearer(header)]),
          ...(client_id === undefined ? [] : ["--static-oauth-client-info", JSON.stringify({ client_id })])
        ],
        callOver(call)
      )
    )
  },
  {
    package: "@modelcontextprotocol/inspector",
    redirect_uri: "http://127.0.0.1:6276/oauth/callback",
    call: oneByOne((desk, url, { given, tool }, { client_id, header }) =>
      run(desk, "mcp-inspector", [
        ...words(`--cli ${url} --transport http --method tools/call --tool-name ${tool}`),
        ...Object.entries(given).flatMap(([name, value]) => [
          "--tool-arg",
          `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`
        ]),
        ...(header === undefined ? [] : ["--header", bearer(header)]),
        ...(client_id === undefined ? [] : ["--client-id", client_id])
      ])
    )
  },
  {
    package: "mcporter",
    call: oneByOne((desk, url, { given, tool }, { header }) =>
      run(desk, "mcporter", [
        ...words(`call --http-url ${url} --allow-http --name bridge-service ${tool} --output json --args`),
        JSON.stringify(given),
        ...(header === undefined ? [] : ["--header", `Authorization=Bearer ${header}`])
      ])
    )
  },
  {
    package: "@anthropic-ai/claude-code",
    redirect_uri: "http://localhost/callback",
    signIn: async (desk, url, given) => {
      await addToClaude(desk, url, given)
      // It signs in at a terminal only.
      return run(desk, "script", ["-qec", "claude mcp login bridge-service", "/dev/null"])
    },
    call: inSession(async (desk, url, model, given) => {
      if (given.header !== undefined) await addToClaude(desk, url, given)
      const env = {
        ANTHROPIC_BASE_URL: model,
        ANTHROPIC_API_KEY: "none",
        // Otherwise the model would have to search for the tools first.
        ENABLE_TOOL_SEARCH: "false",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1"
      }
      const at = { ...desk, env: { ...desk.env, ...env } }
      return run(at, "claude", ["-p", prompt, "--allowedTools", "mcp__bridge-service"])
    })
  },
  {
    package: "@openai/codex",
    redirect_uri: "http://127.0.0.1/callback",
    // Adding it signs in.
    signIn: async (desk, url, given) => {
      await run(desk, "codex", ["mcp", "remove", "bridge-service"])
      return addToCodex(desk, url, given)
    },
    call: inSession(async (desk, url, model, given) => {
      if (given.header !== undefined) await addToCodex(desk, url, given)
      const env = { ...desk.env, OPENAI_API_KEY: "none", BRIDGE_TOKEN: given.header }
      const provider = `{name="scripted",base_url="${model}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}`
      return run({ ...desk, env }, "codex", [
        ...words("exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"),
        ...words("-m scripted -c model_provider=scripted -c"),
        `model_providers.scripted=${provider}`,
        prompt
      ])
    })
  },
  {
    package: "@google/gemini-cli",
    redirect_uri: "http://localhost/oauth/callback",
    signIn: (desk, url, given) => {
      const at = geminiAt(desk, url, given)
      const before = desk.allowed
      const command = "gemini -i '/mcp auth bridge-service'"
      // Its own question before it opens the browser is answered with Enter; then it stays open.
      return run(at, "script", ["-qec", command, "/dev/null"], async (child) => {
        for (let second = 0; second < 40 && desk.allowed === before; second += 1) {
          await pause(1000)
          child.stdin!.write("\r")
        }
        await pause(3000)
        child.kill()
      })
    },
    call: inSession((desk, url, model, given) => {
      const at = geminiAt(desk, url, given)
      const env = { ...at.env, GOOGLE_GEMINI_BASE_URL: model }
      // With a model of its own choice it would ask one how hard the task is.
      return run({ ...at, env }, "gemini", ["-p", prompt, "--yolo", "-m", "gemini-2.5-flash"])
    })
  },
  {
    package: "opencode-ai",
    redirect_uri: "http://127.0.0.1:19876/mcp/oauth/callback",
    signIn: async (desk, url, given) => {
      opencodeAt(desk, url, given)
      // It would ask whether to sign in again although it has a token.
      await run(desk, "opencode", ["mcp", "logout", "bridge-service"])
      return run(desk, "opencode", ["mcp", "auth", "bridge-service"])
    },
    call: inSession((desk, url, model, given) => {
      opencodeAt(desk, url, given, model)
      return run(desk, "opencode", ["run", prompt])
    })
  }
]

const addToClaude = async (desk: Desk, url: string, { client_id, header }: Given) => {
  await run(desk, "claude", ["mcp", "remove", "bridge-service"])
  return run(desk, "claude", [
    ...words(`mcp add --transport http bridge-service ${url}`),
    ...(header === undefined ? [] : ["--header", bearer(header)]),
    ...(client_id === undefined ? [] : ["--client-id", client_id])
  ])
}

const addToCodex = (desk: Desk, url: string, { client_id, header }: Given) =>
  run(desk, "codex", [
    ...words(`mcp add bridge-service --url ${url}`),
    ...(header === undefined ? [] : ["--bearer-token-env-var", "BRIDGE_TOKEN"]),
    ...(client_id === undefined ? [] : ["--oauth-client-id", client_id])
  ])

const geminiAt = (desk: Desk, url: string, { client_id, header }: Given): Desk => {
  configure(desk, ".gemini/settings.json", {
    security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
    mcpServers: {
      "bridge-service": {
        httpUrl: url,
        ...(header !== undefined && { headers: { Authorization: `Bearer ${header}` } }),
        ...(client_id !== undefined && { oauth: { enabled: true, clientId: client_id } })
      }
    }
  })
  const env = { GEMINI_API_KEY: "none", GEMINI_CLI_TRUST_WORKSPACE: "true", TERM: "xterm-256color" }
  // `allowed` is counted at the desk itself.
  return Object.assign(desk, { env: { ...desk.env, ...env } })
}

const opencodeAt = (desk: Desk, url: string, { client_id, header }: Given, model?: string) =>
  configure(desk, ".config/opencode/opencode.json", {
    model: "scripted/scripted",
    provider: {
      scripted: {
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${model}/v1`, apiKey: "none" },
        models: { scripted: { name: "scripted", tool_call: true } }
      }
    },
    mcp: {
      "bridge-service": {
        type: "remote",
        url,
        ...(header !== undefined && { oauth: false, headers: { Authorization: `Bearer ${header}` } }),
        ...(client_id !== undefined && { oauth: { clientId: client_id } })
      }
    }
  })
