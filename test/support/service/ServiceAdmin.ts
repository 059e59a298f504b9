/** `service-admin` as a child process on a database of a throwaway cluster, and queries of that database. */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startCluster } from "../run/Cluster.ts"
import { TestDatabase } from "../run/TestDatabase.ts"

const command = join(import.meta.dirname, "../../../cli/service-admin.mjs")

export const secrets = {
  SERVICE_BRIDGE_ENROLLMENT_SECRET: "Kc5q2WmJ0sYb8vTzR3uNf7LxAe1HdPgQ",
  SERVICE_BRIDGE_TOKEN_SECRET: "p9VwXo4ZtE6iCjUy2rSaMn5GhBkD8lFq",
  SERVICE_OAUTH_SECRET: "Hn3xQe7WcUoT1zLgYv5iDkJb9RsFa2Mp",
  SERVICE_BACKUP_KEY: "t4ZsHq8LxWv2NcRy6JmEb0UaKf7GdPoT"
}

/** Shared by all runs, so that only the first one compiles the command. */
export const compileCache = join(tmpdir(), "service-admin-test-compiled")

export interface Ended {
  /** 130 for SIGINT. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A service that runs on this machine must not answer to doctor. */
const nobody = ([command]: ReadonlyArray<string>) => (command === "doctor" ? { SERVICE_PORT: "1" } : {})

export const serviceAdmin = (args: ReadonlyArray<string>, env: Record<string, string>, limits = "true") => {
  // A ulimit set in the shell also applies to the command that it execs.
  const shell = `${limits}; exec "$0" "$@"`
  const child = spawn("/bin/sh", ["-c", shell, process.execPath, command, ...args], {
    // Without SERVICE_OAUTH_CIMD, doctor would ask hosts on the internet.
    env: {
      PATH: "/usr/bin:/bin",
      NODE_COMPILE_CACHE: compileCache,
      SERVICE_OAUTH_CIMD: "off",
      ...nobody(args),
      ...env
    },
    stdio: ["ignore", "pipe", "pipe"]
  })
  const ended = new Promise<Ended>((resolve) => {
    let [stdout, stderr] = ["", ""]
    child.stdout.on("data", (text: Buffer) => (stdout += text.toString()))
    child.stderr.on("data", (text: Buffer) => (stderr += text.toString()))
    child.on("close", (code) => resolve({ code: code ?? -1, stdout, stderr }))
  })
  return { child, ended }
}

/** A cluster with databases in it, and a folder for files. */
export const startService = async () => {
  const cluster = await startCluster()
  const folder = mkdtempSync(join(tmpdir(), "service-admin-test-"))
  const url = (database: string) =>
    `postgres://${cluster.username}@localhost:${cluster.port}/${database}?host=${encodeURIComponent(cluster.host)}`
  const within = <A>(database: string, use: (connection: PgConnection.PgConnection) => Effect.Effect<A, unknown>) =>
    Effect.runPromise(
      Effect.scoped(Effect.flatMap(PgConnection.make({ url: Redacted.make(url(database)) }), use)) as Effect.Effect<A>
    )
  const query = (database: string, text: string, values: ReadonlyArray<unknown> = []) =>
    within(database, (connection) => Effect.map(connection.query(text, values), ({ rows }) => rows))

  return {
    folder,
    within,
    query,
    create: (database: string) => query("postgres", `create database ${database}`),
    on: (database: string, more: Record<string, string> = {}) => {
      const env = {
        ...secrets,
        DATABASE_URL: url(database),
        SERVICE_DATA_DIR: join(folder, "data"),
        SERVICE_ERASURE_FILE: join(folder, "erasures.jsonl"),
        ...more
      }
      return {
        start: (...args: ReadonlyArray<string>) => serviceAdmin(args, env),
        run: (...args: ReadonlyArray<string>) => serviceAdmin(args, env).ended,
        /** Program, arguments and environment, for another program that spawns the command. */
        shell: (...args: ReadonlyArray<string>) => ({ program: process.execPath, args: [command, ...args], env }),
        /** Every write to a file fails, like on a full disk. */
        runOnFullDisk: (...args: ReadonlyArray<string>) =>
          serviceAdmin(args, { ...env, NODE_COMPILE_CACHE: "" }, "trap '' XFSZ; ulimit -f 0").ended
      }
    },
    stop: async () => {
      await cluster.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

export type TestService = Awaited<ReturnType<typeof startService>>

/** The command on the database of the service under test. */
export const admin = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const { database, host, port, username } = yield* TestDatabase
  const DATABASE_URL = `postgres://${username}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`
  return yield* Effect.promise(() => serviceAdmin(args, { ...secrets, DATABASE_URL }).ended)
})

/** The JSON on stdout of a command that succeeded with an empty stderr. */
export const result = ({ code, stderr, stdout }: Ended) => {
  if (code !== 0 || stderr !== "") throw new Error(`exit ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** Exit code and error code (from the JSON on stderr) of a command that failed with an empty stdout. */
export const refusal = ({ code, stderr, stdout }: Ended) => {
  if (stdout !== "") throw new Error(`stdout: ${stdout}`)
  return [code, JSON.parse(stderr).error.code]
}
