/** How each client signs in and calls a tool, with everything at its default. */
import type { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import type { Package } from "./Programs.ts"
import { type Desk, type Outcome, run } from "./Person.ts"

type Arguments = Readonly<Record<string, unknown>>

export interface RealClient {
  readonly package: Package
  /** Signs in without calling a tool; for clients whose calls need a model. */
  readonly signIn?: (desk: Desk, url: string) => Promise<Outcome>
  /** With `header`, the project token is sent directly. With `client_id`, the client is one that the operator created. */
  readonly call?: (
    desk: Desk,
    url: string,
    tool: string,
    given: Arguments,
    as?: { readonly header?: string; readonly client_id?: string }
  ) => Promise<Outcome>
  /** What the operator registers where clients do not register themselves; undefined if the client takes no client id. */
  readonly redirect_uri?: string
}

/** Speaks MCP over a child's stdin and stdout: opens a session, calls one tool and ends. */
const callOver = (tool: string, given: Arguments) => async (child: ReturnType<typeof spawn>) => {
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

export const realClients: ReadonlyArray<RealClient> = [
  {
    package: "mcp-remote",
    redirect_uri: "http://localhost/oauth/callback",
    call: (desk, url, tool, given, { client_id, header } = {}) =>
      run(
        desk,
        "mcp-remote",
        [
          url,
          ...(header === undefined ? [] : ["--header", `Authorization: Bearer ${header}`]),
          ...(client_id === undefined ? [] : ["--static-oauth-client-info", JSON.stringify({ client_id })])
        ],
        callOver(tool, given)
      )
  },
  {
    package: "@modelcontextprotocol/inspector",
    redirect_uri: "http://127.0.0.1:6276/oauth/callback",
    call: (desk, url, tool, given, { client_id, header } = {}) =>
      run(desk, "mcp-inspector", [
        "--cli",
        url,
        "--transport",
        "http",
        "--method",
        "tools/call",
        "--tool-name",
        tool,
        ...Object.entries(given).flatMap(([name, value]) => [
          "--tool-arg",
          `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`
        ]),
        ...(header === undefined ? [] : ["--header", `Authorization: Bearer ${header}`]),
        ...(client_id === undefined ? [] : ["--client-id", client_id])
      ])
  },
  {
    package: "mcporter",
    call: (desk, url, tool, given, { header } = {}) =>
      run(desk, "mcporter", [
        "call",
        "--http-url",
        url,
        "--allow-http",
        "--name",
        "bridge-service",
        tool,
        "--args",
        JSON.stringify(given),
        "--output",
        "json",
        ...(header === undefined ? [] : ["--header", `Authorization=Bearer ${header}`])
      ])
  },
  {
    package: "@anthropic-ai/claude-code",
    signIn: async (desk, url) => {
      await run(desk, "claude", ["mcp", "add", "--transport", "http", "bridge-service", url])
      // It signs in at a terminal only.
      return run(desk, "script", ["-qec", "claude mcp login bridge-service", "/dev/null"])
    }
  },
  {
    package: "@openai/codex",
    // Adding it signs in.
    signIn: async (desk, url) => {
      await run(desk, "codex", ["mcp", "remove", "bridge-service"])
      return run(desk, "codex", ["mcp", "add", "bridge-service", "--url", url])
    }
  }
]
