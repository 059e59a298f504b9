/** A second checkout without data, for commands that write into their working directory. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { chmodSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { packageRoot } from "../../../src/platform/settings/Package.ts"
import { compiled } from "./ServiceAdmin.ts"
import { dataFolder, place } from "./PostgresUser.ts"

const sources = ["cli", "migrations", "src", "scripts", "package.json"]

/** `copied`: the files are copies, so a test can change them. Otherwise they are links. */
export const checkout = Effect.fnUntraced(function* ({ copied = false } = {}) {
  const folder = yield* place
  for (const name of sources) {
    if (copied) cpSync(join(packageRoot, name), join(folder, name), { recursive: true })
    else symlinkSync(join(packageRoot, name), join(folder, name))
  }
  symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"))
  yield* dataFolder(folder)
  return folder
})

/**
 * Runs lines of a page in a shell in the folder, and returns what they print.
 *
 * `npx` is replaced by a script, because npx takes as long as the command itself. test/docs/readme.test.ts uses the real one.
 */
export const typing = (folder: string, environment: Readonly<Record<string, string>>) => {
  const programs = join(folder, ".programs")
  mkdirSync(programs, { recursive: true })
  writeFileSync(join(programs, "npx"), `#!/bin/sh\nshift\nexec "${process.execPath}" cli/service-admin.mjs "$@"\n`)
  chmodSync(join(programs, "npx"), 0o755)
  return (lines: string, more: Readonly<Record<string, string>> = {}) =>
    Effect.promise(async () => {
      const path = [programs, join(packageRoot, "node_modules/.bin"), process.env["PATH"]].join(":")
      const env = { HOME: folder, PATH: path, NODE_COMPILE_CACHE: compiled, ...environment, ...more }
      const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", lines], { cwd: folder, env })
      return stdout
    })
}
