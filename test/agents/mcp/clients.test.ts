/** Common MCP clients, each calling every tool. */
import { NodeHttpClient } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect, Layer } from "effect"
import { McpClient, McpProtocol } from "effect/ai"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { tools } from "../../../src/agents/mcp/Tools.ts"
import { examplesFor } from "../../support/agents/Examples.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

const count = Object.keys(tools).length

type Call = (name: string, given: Record<string, unknown>) => Effect.Effect<any, unknown>

/** Calls every tool once and compares structured content with text. Ends with a call that fails. */
const callEveryTool = Effect.fnUntraced(function* (agent: Agent, call: Call) {
  const examples = yield* examplesFor(agent)
  for (const [name, given] of Object.entries(examples)) {
    const result = yield* call(name, given)
    assert.isNotTrue(result.isError, JSON.stringify(result))
    assert.deepStrictEqual(JSON.parse(result.content[0].text), result.structuredContent)
  }
  const { idempotency_key: _, ...again } = examples.task_update
  const stale = yield* call("task_update", again)
  assert.isTrue(stale.isError)
  assert.strictEqual(JSON.parse(stale.content[0].text).error.code, "stale_version")
})

layer(Service.layer, { excludeTestServices: true })("clients", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const bearer = (a: Agent) => ({ authorization: `Bearer ${a.token}` })
  const address = (a: Agent) => new URL(`${a.url}/mcp`)

  it.effect("the v1 SDK client uses every tool", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const client = new OldClient({ name: "t", version: "1" })
      const transport = new OldTransport(address(a), { requestInit: { headers: bearer(a) } })
      yield* Effect.promise(() => client.connect(transport as never))
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      assert.lengthOf((yield* Effect.promise(() => client.listTools())).tools, count)
      yield* callEveryTool(a, (name, given) => Effect.promise(() => client.callTool({ name, arguments: given })))
    })
  )

  for (const mode of ["legacy", "auto", { pin: "2026-07-28" }] as const) {
    it.effect(`the v2 SDK client (${JSON.stringify(mode)}) uses every tool`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const client = new Client({ name: "t", version: "1" }, { versionNegotiation: { mode } })
        const transport = new StreamableHTTPClientTransport(address(a), { requestInit: { headers: bearer(a) } })
        yield* Effect.promise(() => client.connect(transport))
        yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
        assert.lengthOf((yield* Effect.promise(() => client.listTools())).tools, count)
        yield* callEveryTool(a, (name, given) => Effect.promise(() => client.callTool({ name, arguments: given })))
      })
    )
  }

  for (const protocol of [McpProtocol.v2026_07_28, McpProtocol.v2025_11_25] as const) {
    it.effect(`Effect's client (${protocol.protocolVersion}) uses every tool`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const options = { name: "t", version: "1", url: address(a), headers: bearer(a), protocol }
        const context = yield* Layer.build(
          McpClient.layerHttp(options as never).pipe(Layer.provide(NodeHttpClient.layerNodeHttp))
        )
        yield* Effect.gen(function* () {
          const client = yield* McpClient.McpClient
          const listed = yield* client.listTools()
          assert.lengthOf(listed, count)
          yield* callEveryTool(a, (name, given) =>
            client
              .callTool({ tool: listed.find((tool) => tool.name === name)!, arguments: given as never })
              .pipe(Effect.catchReason("McpClientError", "ToolError", ({ result }) => Effect.succeed(result)))
          )
        }).pipe(Effect.provideContext(context))
      })
    )
  }

  const inspector = (era: string) =>
    Effect.gen(function* () {
      const a = yield* agent
      const home = mkdtempSync(join(tmpdir(), "bridge-service-test-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(home, { recursive: true, force: true })))
      const launcher = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
      const common = ["--cli", "--server-url", address(a).href, "--transport", "http", "--format", "json"]
      const header = ["--header", `Authorization: Bearer ${a.token}`, "--protocol-era", era]
      const options = { env: { PATH: process.env["PATH"], HOME: home }, timeout: 60_000 }
      /** The exit code is ignored: the Inspector exits with an error when the result is one. */
      const inspect = (...args: ReadonlyArray<string>) =>
        Effect.map(
          Effect.promise(
            () =>
              new Promise<string>((resolve) =>
                execFile(process.execPath, [launcher, ...common, ...header, ...args], options, (_, stdout) =>
                  resolve(stdout)
                )
              )
          ),
          (stdout) => {
            const output = JSON.parse(stdout)
            return output.result ?? output
          }
        )
      const call: Call = (name, given) => {
        const values = Object.entries(given).flatMap(([key, value]) => [
          "--tool-arg",
          `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`
        ])
        return inspect("--method", "tools/call", "--tool-name", name, ...values)
      }
      assert.lengthOf((yield* inspect("--method", "tools/list", "--strict")).tools, count)
      return { agent: a, call }
    })

  for (const era of ["legacy", "modern"]) {
    it.effect(
      `the Inspector (${era}) lists the tools and calls one`,
      () =>
        Effect.gen(function* () {
          const { agent, call } = yield* inspector(era)
          const { structuredContent } = yield* call("server_identity", {})
          assert.strictEqual(structuredContent.project.id, agent.project_id)
        }),
      60_000
    )
  }

  // Slow: the Inspector starts a process for each call.
  it.effect(
    "the Inspector (auto) uses every tool",
    () =>
      Effect.gen(function* () {
        const { agent, call } = yield* inspector("auto")
        yield* callEveryTool(agent, call)
      }),
    180_000
  )
})
