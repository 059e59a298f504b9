/** The clients that people use, each with every tool. */
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
import { Agent } from "../support/McpAgent.ts"
import { Service } from "../support/Service.ts"

type Call = (name: string, given: Record<string, unknown>) => Effect.Effect<any, unknown>

/** One day of an agent: every tool once, and a failure in between. */
const day = Effect.fnUntraced(function* (call: Call) {
  const ok = Effect.fnUntraced(function* (name: string, given: Record<string, unknown> = {}) {
    const result = yield* call(name, given)
    assert.isNotTrue(result.isError, JSON.stringify(result))
    return result.structuredContent
  })
  const { write_context } = yield* ok("server_identity")
  const { entry } = yield* ok("memory_add", { kind: "note", body: "ostriches run", write_context })
  assert.strictEqual((yield* ok("memory_get", { id: entry.id })).entry.body, "ostriches run")
  assert.strictEqual((yield* ok("memory_search", { query: "ostrich" })).entries[0].id, entry.id)
  const { task } = yield* ok("task_create", { title: "T", write_context })
  const claim = { id: task.id, expected_version: 1, status: "in_progress", write_context }
  const receipt = { session_ref: "s", worker: "w", outcome: "handoff", summary: "x" }
  assert.strictEqual((yield* ok("task_update", { ...claim, receipt })).receipt.task_version_after, 2)
  const stale = yield* call("task_update", claim)
  assert.isTrue(stale.isError)
  assert.strictEqual(JSON.parse(stale.content[0].text).error.code, "stale_version")
  assert.lengthOf((yield* ok("task_get", { id: task.id })).receipts, 1)
  assert.lengthOf((yield* ok("task_list")).tasks, 1)
  assert.lengthOf((yield* ok("continuity_context")).open_tasks, 1)
  assert.deepStrictEqual(yield* ok("runtime_bootstrap_get"), { documents: [] })
  assert.isTrue((yield* call("git_document_get", { document_id: "x" })).isError)
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
      assert.lengthOf((yield* Effect.promise(() => client.listTools())).tools, 11)
      yield* day((name, given) => Effect.promise(() => client.callTool({ name, arguments: given })))
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
        assert.lengthOf((yield* Effect.promise(() => client.listTools())).tools, 11)
        yield* day((name, given) => Effect.promise(() => client.callTool({ name, arguments: given })))
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
          const tools = yield* client.listTools()
          assert.lengthOf(tools, 11)
          yield* day((name, given) =>
            client
              .callTool({ tool: tools.find((tool) => tool.name === name)!, arguments: given as never })
              .pipe(Effect.catchReason("McpClientError", "ToolError", ({ result }) => Effect.succeed(result)))
          )
        }).pipe(Effect.provideContext(context))
      })
    )
  }

  for (const era of ["legacy", "auto", "modern"]) {
    it.effect(
      `the Inspector (${era}) lists and calls`,
      () =>
        Effect.gen(function* () {
          const a = yield* agent
          const home = mkdtempSync(join(tmpdir(), "bridge-service-test-"))
          yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(home, { recursive: true, force: true })))
          const inspect = (...args: ReadonlyArray<string>) =>
            Effect.promise(
              () =>
                new Promise<string>((resolve, reject) => {
                  const inspector = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
                  const standing = ["--cli", "--server-url", address(a).href, "--transport", "http", "--format", "json"]
                  const header = ["--header", `Authorization: Bearer ${a.token}`, "--protocol-era", era]
                  const options = { env: { PATH: process.env["PATH"], HOME: home }, timeout: 25_000 }
                  execFile(
                    process.execPath,
                    [inspector, ...standing, ...header, ...args],
                    options,
                    (error, stdout, stderr) => (error === null ? resolve(stdout) : reject(new Error(stderr || stdout)))
                  )
                })
            )
          const listed = JSON.parse(yield* inspect("--method", "tools/list", "--strict"))
          assert.lengthOf(listed.tools ?? listed.result.tools, 11)
          const called = yield* inspect("--method", "tools/call", "--tool-name", "server_identity")
          assert.include(called, a.project_id)
        }),
      60_000
    )
  }
})
