/**
 * The server process of one database folder: launch it, find it by its postmaster.pid, connect to it, stop it.
 *
 * PostgreSQL itself refuses a second server on the folder, by postmaster.pid and by the shared memory of its processes.
 * So a redundant launch does no harm, and nothing here removes postmaster.pid.
 */
import { PgConnection } from "@effect/sql-pg"
import { Data, Effect, Schedule } from "effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import type { PostgresFiles } from "./PostgresFiles.ts"
import { environment } from "./PostgresSetup.ts"

export interface Postmaster {
  readonly pid: number
  /** The folder of its unix socket; the port is part of the socket's name. */
  readonly host: string
  readonly port: number
  readonly username: string
  readonly database: string
  readonly password: PostgresFiles["password"]
  readonly directory: string
}

/** No server runs on the folder, or it does not accept connections yet. */
export class Absent extends Data.TaggedError("Absent") {}

const settings = (files: PostgresFiles): Record<string, string> => ({
  listen_addresses: "",
  port: "5432",
  // The setting is a list, so a comma in the path has to be quoted.
  unix_socket_directories: `"${files.sockets.replaceAll('"', '""')}"`,
  unix_socket_permissions: "0700",
  max_connections: "100",
  shared_buffers: "128MB",
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
  // The client gets the errors of statements. In the log they would expose values.
  log_min_messages: "log",
  log_min_error_statement: "panic",
  log_parameter_max_length_on_error: "0",
  log_statement: "none",
  log_checkpoints: "off"
})

/** Does nothing if a server runs already. A detached server has its own session and outlives this process. */
export const launch = (files: PostgresFiles, options: { readonly detached: boolean; readonly settings?: object }) => {
  if (isServed(files.directory)) return undefined
  trim(files.log)
  const log = fs.openSync(files.log, "a", 0o600)
  // The lock file beside the socket only matters in a folder that several databases share.
  fs.rmSync(join(files.sockets, ".s.PGSQL.5432.lock"), { force: true })
  const flags = Object.entries({ ...settings(files), ...options.settings }).flatMap(([name, value]) => [
    "-c",
    `${name}=${value}`
  ])
  const child = spawn(files.postgres, ["-D", files.directory, ...flags], {
    ...files.account,
    env: environmentOf(files.directory),
    cwd: "/",
    detached: options.detached,
    stdio: ["ignore", log, log]
  })
  fs.closeSync(log)
  child.on("error", (error) => fs.appendFileSync(files.log, `${error.message}\n`))
  child.unref()
  return child
}

/**
 * For a folder that no server uses. PostgreSQL believes that any live process with the pid in postmaster.pid is the
 * server, unless the pid is named as its grandparent.
 */
export const environmentOf = (directory: string) => {
  const stale = pidIn(directory)
  return stale === undefined ? environment : { ...environment, PG_GRANDPARENT_PID: stale }
}

/** PostgreSQL appends to the log, so it can be truncated while open. At its log level a day is a handful of lines. */
export const trim = (log: string) => {
  const size = fs.statSync(log, { throwIfNoEntry: false })?.size ?? 0
  if (size > 1_048_576) fs.truncateSync(log)
}

export const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

/** Fast shutdown: ends every session at once and keeps what they committed. */
export const end = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (hasEnded(child)) return resume(Effect.void)
    child.ref()
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGINT")
  })

/** Connects to the server of this folder. In a copied folder, postmaster.pid names the socket of the original's server. */
export const connect = Effect.fnUntraced(function* ({
  directory,
  password
}: Pick<PostgresFiles, "directory" | "password">) {
  const [, , , port, host] = pidFile(directory)
  if (!host) return yield* new Absent()
  const at = { host, port: Number(port), username: "postgres", database: "postgres", password }
  const session = yield* PgConnection.make({ ...at, applicationName: "bridge-service" })
  const { rows } = yield* session.query("select current_setting('data_directory') = $1 as same", [directory])
  if (rows[0]?.["same"] !== true) return yield* new Absent()
  return { session, postmaster: { ...at, pid: Number(pidIn(directory)), directory } satisfies Postmaster }
})

export const retrySchedule = Schedule.min([Schedule.exponential("10 millis", 1.5), Schedule.spaced("500 millis")])

/** Like `end`, for a server that another process may have launched. */
export const stop = Effect.fnUntraced(function* (directory: string) {
  const pid = pidIn(directory)
  if (!isServed(directory)) return
  yield* Effect.ignore(Effect.try(() => process.kill(Number(pid), "SIGINT")))
  yield* Effect.sync(() => pidIn(directory) === pid).pipe(
    Effect.repeat({ while: (present) => present, schedule: Schedule.upTo(retrySchedule, { duration: "30 seconds" }) })
  )
})

/** Whether a PostgreSQL uses the folder. Its pid alone proves nothing: after a crash another process can have it. */
export const isServed = (directory: string) => {
  const pid = pidIn(directory)
  if (pid === undefined) return false
  const command = orUndefined(() =>
    process.platform === "linux"
      ? fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
      : execFileSync("ps", ["-ww", "-o", "command=", "-p", pid], { encoding: "utf8" })
  )
  return command?.includes(` -D ${directory} `) ?? false
}

/** In single-user mode PostgreSQL writes its pid with a minus. */
const pidIn = (directory: string) => pidFile(directory)[0]?.replace("-", "")

/** The lines of postmaster.pid: pid, folder, start time, port, socket folder. PostgreSQL adds the last ones as it starts. */
const pidFile = (directory: string): ReadonlyArray<string> =>
  orUndefined(() => fs.readFileSync(join(directory, "postmaster.pid"), "utf8"))?.split("\n") ?? []

const orUndefined = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
