/** Child processes that use the embedded PostgreSQL, and data folders for them. */
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import type { Account } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import type { Postmaster } from "../../../src/platform/database/embedded/Postmaster.ts"

export const checkout = join(import.meta.dirname, "../../..")

/** A temporary folder that every account can traverse, for data folders. */
export const place = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "bridge-service-test-")))
    fs.chmodSync(folder, 0o711)
    return folder
  }),
  (folder) => remove(folder)
)

/** The path of a data folder that does not exist yet. Files that the service moves elsewhere are removed with the scope. */
export const dataFolder = Effect.fnUntraced(function* (within?: string, name = "data") {
  const data = join(within ?? (yield* place), name)
  yield* Effect.addFinalizer(() => removeMoved(join(data, "location")))
  return data
})

const removeMoved = Effect.fnUntraced(function* (location: string) {
  if (!fs.existsSync(location)) return
  const moved = fs.readFileSync(location, "utf8").trim()
  yield* remove(moved)
  yield* Effect.ignore(Effect.try(() => fs.rmdirSync(dirname(moved))))
})

const remove = (folder: string) =>
  Effect.promise(() => fs.promises.rm(folder, { recursive: true, force: true, maxRetries: 10 }))

interface Options {
  readonly from?: string
  readonly as?: Account
}

export const userProcess = (data: string, { from = checkout, as }: Options = {}) =>
  child(process.execPath, [join(from, "test/support/service/PostgresUserMain.ts"), data], as)

/** A process that has joined the server. `said` is what it logged before. */
export const user = Effect.fnUntraced(function* (data: string, options?: Options) {
  const process = yield* userProcess(data, options)
  const said: Array<string> = []
  const postmaster = yield* Effect.callback<Postmaster, string>((resume) => {
    createInterface(process.stdout!).on("line", (line) =>
      line.startsWith("{") ? resume(Effect.succeed(JSON.parse(line))) : said.push(line)
    )
    process.once("exit", () => resume(Effect.fail(said.join("\n"))))
  })
  return { process, postmaster, said }
})

/** A process unrelated to PostgreSQL, run by the account that owns `directory`. */
export const stranger = (directory: string) => {
  const { uid, gid } = fs.statSync(directory)
  return child("sleep", ["60"], { uid, gid })
}

const child = (program: string, args: ReadonlyArray<string>, account: Account) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn(program, args, { ...account, cwd: "/", stdio: ["ignore", "pipe", "inherit"] })),
    (process) => end(process, "SIGTERM")
  )

export const end = (process: ChildProcess, signal: NodeJS.Signals) =>
  Effect.promise(async () => {
    if (process.exitCode !== null || process.signalCode !== null) return
    process.kill(signal)
    await once(process, "exit")
  })
