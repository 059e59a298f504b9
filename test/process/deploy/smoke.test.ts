/** `npm run smoke` against a running service, as the operator calls it (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { issueToken } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

const run = (...args: ReadonlyArray<string>) =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>((resolve) => {
        const script = join(import.meta.dirname, "../../../scripts/smoke.ts")
        const child = execFile(process.execPath, [script, ...args], (_, stdout, stderr) =>
          resolve({ code: child.exitCode ?? 1, stdout, stderr })
        )
      })
  )

const tokenFile = (token: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(join(tmpdir(), "bridge-service-test-"))
      writeFileSync(join(folder, "token"), `${token}\n`, { mode: 0o600 })
      return folder
    }),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  ).pipe(Effect.map((folder) => join(folder, "token")))

layer(Service.layer, { excludeTestServices: true, timeout: 60_000 })("the smoke run", (it) => {
  const project = Effect.gen(function* () {
    const service = yield* Service
    const { project_id } = yield* Context.get(service.services, Projects).create("Smoke")
    const file = (role: "reader" | "contributor") =>
      Effect.flatMap(issueToken(service, project_id, { role }), tokenFile)
    return { url: service.url, file }
  })

  it.effect("passes, and passes again in the same project", () =>
    Effect.gen(function* () {
      const { file, url } = yield* project
      const args = ["--base-url", `${url}/`, "--token-file", yield* file("contributor")]
      for (const _ of ["first", "second"]) {
        const { code, stderr, stdout } = yield* run(...args)
        assert.deepStrictEqual([code, stderr], [0, ""], stdout)
        assert.lengthOf(stdout.match(/^ok /gm) ?? [], 14)
      }
    })
  )

  it.effect("reports a failure in one line", () =>
    Effect.gen(function* () {
      const { file, url } = yield* project
      const wrong: Record<string, ReadonlyArray<string>> = {
        "Unknown option '--url'": ["--url", url],
        "Name both --base-url and --token-file, or neither.": ["--base-url", url],
        "/nowhere cannot be read.": ["--base-url", url, "--token-file", "/nowhere"],
        "tools/list: the response 401 has no result.": [
          "--base-url",
          url,
          "--token-file",
          yield* tokenFile("spt_wrong")
        ],
        "http://127.0.0.1:1 does not answer; is the service running?": [
          "--base-url",
          "http://127.0.0.1:1",
          "--token-file",
          yield* file("reader")
        ],
        "Failed check: tools/list discovers every tool": ["--base-url", url, "--token-file", yield* file("reader")]
      }
      for (const [sentence, args] of Object.entries(wrong)) {
        const { code, stderr } = yield* run(...args)
        assert.deepStrictEqual([code, stderr], [1, `The smoke run failed: ${sentence}\n`])
      }
    })
  )
})
