/** The official conformance suite: every server scenario that applies to a server with tools, prompts and resources of its own. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent } from "../../support/agents/McpAgent.ts"
import { bearerProxy } from "../../support/agents/BearerProxy.ts"
import { Service } from "../../support/service/Service.ts"

const scenarios = {
  "2026-07-28": [
    "server-stateless",
    "tools-list",
    "prompts-list",
    "resources-list",
    "completion-complete",
    "sep-2164-resource-not-found",
    "caching",
    "dns-rebinding-protection",
    "http-header-validation",
    "server-sse-multiple-streams",
    "input-required-result-unsupported-methods"
  ],
  "2025-11-25": [
    "server-initialize",
    "ping",
    "tools-list",
    "prompts-list",
    "resources-list",
    "dns-rebinding-protection",
    "server-session-lifecycle"
  ],
  "2025-06-18": ["server-initialize", "ping", "tools-list", "prompts-list", "resources-list", "completion-complete"],
  "2025-03-26": ["server-initialize", "ping", "tools-list"]
} as const

/** Checks that are expected to fail. The run fails when one of them passes, so the list stays accurate. */
const baseline = "test/agents/mcp/conformance-baseline.yml"

const root = join(import.meta.dirname, "../../..")

layer(Service.layer, { excludeTestServices: true })("conformance", (it) => {
  for (const [revision, names] of Object.entries(scenarios)) {
    for (const scenario of names) {
      it.effect(
        `${scenario} of revision ${revision}`,
        () =>
          Effect.gen(function* () {
            const agent = yield* Agent.make(yield* Service)
            const proxy = yield* bearerProxy(new URL(agent.url), agent.token)
            const folder = mkdtempSync(join(tmpdir(), "bridge-service-test-"))
            yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
            const args = [
              join(root, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
              "server",
              "--url",
              `${proxy}/mcp`,
              "--scenario",
              scenario,
              "--spec-version",
              revision,
              ...(revision === "2026-07-28" ? ["--expected-failures", join(root, baseline)] : [])
            ]
            const { code, output } = yield* Effect.promise(
              () =>
                new Promise<{ code: unknown; output: string }>((resolve) =>
                  execFile(process.execPath, args, { cwd: folder, timeout: 50_000 }, (error, stdout, stderr) =>
                    resolve({ code: error === null ? 0 : (error.code ?? 1), output: stdout + stderr })
                  )
                )
            )
            assert.strictEqual(code, 0, output)
          }),
        60_000
      )
    }
  }
})
