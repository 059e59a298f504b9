/** Child processes that share the managed PostgreSQL, and the folders they use. */
import { Effect, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import type { Account } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import type { Postmaster } from "../../../src/platform/database/embedded/Postmaster.ts"

export const checkout = join(import.meta.dirname, "../../..")

/** A temporary folder that every account can reach. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "bridge-service-test-")))
    fs.chmodSync(folder, 0o711)
    return folder
  }),
  (folder) => remove(folder)
)

/** The path of a data folder that does not exist yet. Its PostgreSQL files are deleted too if they were moved elsewhere. */
export const dataFolder = Effect.fnUntraced(function* (within?: string, name = "data") {
  const data = join(within ?? (yield* temporaryFolder), name)
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
  child(process.execPath, [join(from, "test/support/database/PostgresUserMain.ts"), data], as)

/** A process that has connected to the database. `logged`: the lines it logged until then. */
export const user = Effect.fnUntraced(function* (data: string, options?: Options) {
  const process = yield* userProcess(data, options)
  const logged: Array<string> = []
  const postmaster = yield* Effect.callback<Postmaster, string>((resume) => {
    createInterface(process.stdout!).on("line", (line) =>
      line.startsWith("{") ? resume(Effect.succeed(printed(line))) : logged.push(line)
    )
    process.once("exit", () => resume(Effect.fail(logged.join("\n"))))
  })
  return { process, postmaster, logged }
})

const printed = (line: string): Postmaster => {
  const { password, ...postmaster } = JSON.parse(line)
  return { ...postmaster, password: Redacted.make(password) }
}

/** A process unrelated to PostgreSQL, under the account that owns `directory`. */
export const unrelatedProcess = (directory: string) => {
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
