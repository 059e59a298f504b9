/** A copy of the repository whose sources can be changed, and which runs tests. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Sandbox {
  readonly folder: string
  readonly write: (file: string, text: string) => void
  /** Whether all of these test files pass within so many seconds. Stops at the first failure. */
  readonly pass: (tests: ReadonlyArray<string>, seconds: number, environment?: object) => Promise<boolean>
}

const left = new Set([".git", ".mutation", "node_modules"])

/** `cluster` is the PostgreSQL of the tests (test/support/run/globalSetup.ts). */
export const makeSandbox = (cluster: object): Sandbox => {
  const folder = mkdtempSync(join(tmpdir(), "bridge-service-mutation-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  for (const name of readdirSync(".")) if (!left.has(name)) cpSync(name, join(folder, name), { recursive: true })
  symlinkSync(join(process.cwd(), "node_modules"), join(folder, "node_modules"))
  const fixed = { ROUNDS: "2", MODEL_RUNS: "5", TEST_CLUSTER: JSON.stringify(cluster) }
  return {
    folder,
    write: (file, text) => writeFileSync(join(folder, file), text),
    pass: async (tests, seconds, environment = {}) => {
      const flags = ["--bail=1", "--maxWorkers=1", "--reporter=dot", "--no-file-parallelism"]
      const runner = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...flags, ...tests], {
        cwd: folder,
        env: { ...process.env, ...fixed, ...environment },
        stdio: "ignore",
        detached: true
      })
      // The group: a mutant can make a test hang with processes of its own.
      const kill = () => process.kill(-runner.pid!, "SIGKILL")
      process.once("exit", kill)
      const timer = setTimeout(kill, seconds * 1000)
      const [code] = await once(runner, "exit")
      clearTimeout(timer)
      process.off("exit", kill)
      return code === 0
    }
  }
}
