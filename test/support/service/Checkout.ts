/** A second checkout of this repository with an empty data folder, for commands that write into their own checkout. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { chmodSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { compileCache, packageRoot } from "../run/Root.ts"
import { dataFolder, temporaryFolder } from "../database/PostgresUser.ts"

const pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples"]
const sources = ["cli", "migrations", "src", "scripts", "test", "package.json", ...pages]

/** The files are links to this checkout's; with `copied` they are copies, which the test can edit into another release. */
export const checkout = Effect.fnUntraced(function* ({ copied = false } = {}) {
  const folder = yield* temporaryFolder
  for (const name of sources) {
    if (copied) cpSync(join(packageRoot, name), join(folder, name), { recursive: true })
    else symlinkSync(join(packageRoot, name), join(folder, name))
  }
  symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"))
  yield* dataFolder(folder)
  return folder
})

/**
 * Runs command lines of a page with bash in the folder, and returns their stdout.
 *
 * `npx service-admin` runs without npx, which is as slow as the command itself; test/docs/readme.test.ts covers npx.
 */
export const shellIn = (folder: string, environment: Readonly<Record<string, string>>) => {
  const programs = join(folder, ".programs")
  mkdirSync(programs, { recursive: true })
  writeFileSync(join(programs, "npx"), `#!/bin/sh\nshift\nexec "${process.execPath}" cli/service-admin.mjs "$@"\n`)
  chmodSync(join(programs, "npx"), 0o755)
  return (lines: string, more: Readonly<Record<string, string>> = {}) =>
    Effect.promise(async () => {
      const path = [programs, join(packageRoot, "node_modules/.bin"), process.env["PATH"]].join(":")
      const env = { HOME: folder, PATH: path, NODE_COMPILE_CACHE: compileCache, ...environment, ...more }
      const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", lines], { cwd: folder, env })
      return stdout
    })
}
