/** `service-admin` as a child process on a database of a throwaway cluster, and queries of that database. */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inject } from "vitest"
import { TestDatabase } from "../database/TestDatabase.ts"
import { compileCache } from "../run/Root.ts"

const command = join(import.meta.dirname, "../../../cli/service-admin.mjs")

export const secrets = {
  SERVICE_BRIDGE_ENROLLMENT_SECRET: "Kc5q2WmJ0sYb8vTzR3uNf7LxAe1HdPgQ",
  SERVICE_BRIDGE_TOKEN_SECRET: "p9VwXo4ZtE6iCjUy2rSaMn5GhBkD8lFq",
  SERVICE_OAUTH_SECRET: "Hn3xQe7WcUoT1zLgYv5iDkJb9RsFa2Mp",
  SERVICE_BACKUP_KEY: "t4ZsHq8LxWv2NcRy6JmEb0UaKf7GdPoT"
}

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

/** The template of databases with the schema of this release. */
export const migrated = "template_migrated"

/**
 * Databases of the run's cluster, and a folder for files. The database `service` is there from the beginning, by default
 * migrated.
 */
export const startService = async (template = migrated) => {
  const { host, port, username } = inject("cluster")
  const folder = mkdtempSync(join(tmpdir(), "service-admin-test-"))
  const made: Array<string> = []
  const suffix = randomUUID().slice(0, 8)
  const nameOf = (database: string) => `${database}_${suffix}`
  const address = (name: string) => `postgres://${username}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`
  const connected = <A>(name: string, use: (connection: PgConnection.PgConnection) => Effect.Effect<A, unknown>) =>
    Effect.runPromise(
      Effect.scoped(Effect.flatMap(PgConnection.make({ url: Redacted.make(address(name)) }), use)) as Effect.Effect<A>
    )
  const rowsIn = (name: string, text: string, values: ReadonlyArray<unknown> = []) =>
    connected(name, (connection) => Effect.map(connection.query(text, values), ({ rows }) => rows))
  const create = async (database: string, template = "template0") => {
    await rowsIn("postgres", `create database ${nameOf(database)} template ${template} strategy file_copy`)
    made.push(nameOf(database))
  }
  await create("service", template)

  return {
    folder,
    /** The name of a database in the cluster. */
    nameOf,
    /** Empty, unless another template is named. */
    create,
    within: <A>(database: string, use: (connection: PgConnection.PgConnection) => Effect.Effect<A, unknown>) =>
      connected(nameOf(database), use),
    query: (database: string, text: string, values: ReadonlyArray<unknown> = []) =>
      rowsIn(nameOf(database), text, values),
    /** Makes an account of the cluster, unless it is there. */
    account: (name: string, options = "") =>
      rowsIn(
        "postgres",
        `do $$ begin create role ${name} login ${options}; exception when duplicate_object then null; end $$`
      ),
    on: (database: string, more: Record<string, string> = {}) => {
      const env = {
        ...secrets,
        DATABASE_URL: address(nameOf(database)),
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
      for (const name of made) await rowsIn("postgres", `drop database if exists ${name} with (force)`)
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
