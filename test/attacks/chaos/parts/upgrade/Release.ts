/** An earlier release of this service, from the history of this repository, in a folder of its own. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { packageRoot } from "../../../../support/run/Root.ts"
import { ChaosError } from "../../harness.ts"

const run = (program: string, args: ReadonlyArray<string>, cwd: string, env: NodeJS.ProcessEnv = process.env) =>
  Effect.tryPromise({
    try: async () => (await promisify(execFile)(program, args, { cwd, env, maxBuffer: 1 << 26 })).stdout,
    catch: (error) => new ChaosError({ message: (error as { readonly stderr?: string }).stderr ?? String(error) })
  })

/** Whether this clone has the commit; a shallow one has not. */
export const hasCommit = (commit: string) =>
  run("git", ["cat-file", "-e", `${commit}^{commit}`], packageRoot).pipe(
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )

/** The sources of a commit, with what its package.json names installed. */
export const checkOut = Effect.fnUntraced(function* (commit: string, folder: string) {
  mkdirSync(folder, { mode: 0o711 })
  const archive = join(folder, "sources.tar")
  yield* run("git", ["archive", `--output=${archive}`, commit], packageRoot)
  yield* run("tar", ["-xf", archive], folder)
  const installed = agrees(folder)
  if (installed) symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"))
  else yield* run("npm", ["ci", "--no-audit", "--no-fund"], folder)

  return {
    folder,
    installed: installed ? "here" : "by its own lock file",
    /** Runs one of its programs and returns what it prints. */
    program: (file: string, args: ReadonlyArray<string>, env: NodeJS.ProcessEnv) =>
      run(process.execPath, [join(folder, file), ...args], folder, env)
  }
})
export type Release = Effect.Success<ReturnType<typeof checkOut>>

/** Versions in package.json are exact. What is optional may be missing here, as it would be there. */
const agrees = (folder: string) => {
  const read = (file: string) => JSON.parse(readFileSync(file, "utf8"))
  const { dependencies, devDependencies, optionalDependencies } = read(join(folder, "package.json"))
  const here = (name: string) => join(packageRoot, "node_modules", name, "package.json")
  const wanted = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })
  return wanted.every(([name, version]) =>
    existsSync(here(name)) ? read(here(name)).version === version : name in (optionalDependencies ?? {})
  )
}
