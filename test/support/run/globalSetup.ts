/**
 * Starts one cluster per run, with one migrated database as the template of every test database, and gives the tests a
 * temporary folder in memory where there is room for one.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs"
import { freemem } from "node:os"
import { join } from "node:path"
import type { TestProject } from "vitest/node"
import { migrate } from "../../../src/platform/database/Migrations.ts"
import { startCluster } from "../database/Cluster.ts"
import { makeRoles } from "../database/Roles.ts"
import { isAlive } from "./Proc.ts"

declare module "vitest" {
  export interface ProvidedContext {
    cluster: {
      readonly host: string
      readonly port: number
      readonly username: string
      /** The data folder. */
      readonly directory: string
      /** The server's log file. */
      readonly log: string
    }
  }
}

/** A running cluster with the migrated template, in which the service's account may not change the audit log. */
export const makeCluster = async () => {
  const { stop, ...cluster } = await startCluster()
  const { host, port, username } = cluster
  const on = (database: string) => PgClient.layer({ host, port, username, database, maxConnections: 1 })
  await Effect.runPromise(
    SqlClient.SqlClient.use((sql) => sql.unsafe("create database template_migrated").unprepared).pipe(
      Effect.provide(on("postgres"))
    )
  )
  await Effect.runPromise(Effect.provide(Effect.andThen(migrate(), makeRoles), on("template_migrated")))
  return { cluster, stop }
}

const memory = "/dev/shm"
/** Bytes of it, more than a run takes. */
const room = 6 * 2 ** 30

/**
 * Databases and Bridges sync what they write. On a disk each of them waits for everything that all tests have written, in
 * memory for nothing. Does nothing if there is too little memory, or if TMPDIR names a folder.
 */
const useMemory = () => {
  if (process.env["TMPDIR"] !== undefined || !existsSync(memory)) return
  // Some tests run a program that they have put there.
  if (/ \/dev\/shm \S+ \S*\bnoexec\b/.test(readFileSync("/proc/mounts", "utf8"))) return
  for (const name of readdirSync(memory)) {
    const [, pid] = /^tests-(\d+)-/.exec(name) ?? []
    // A killed run has left it.
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(memory, name), { recursive: true, force: true })
  }
  const { bavail, bsize } = statfsSync(memory)
  if (Math.min(bavail * bsize, freemem()) < room) return
  // A short name: the sockets of databases are in it, and the path of a socket has at most 107 bytes.
  const folder = mkdtempSync(join(memory, `tests-${process.pid}-`))
  // PostgreSQL's account must be able to enter it.
  chmodSync(folder, 0o711)
  process.env["TMPDIR"] = folder
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
}

export default async (project: TestProject) => {
  // The tests' processes inherit it: documents are not pinned from repositories that a group can write to.
  process.umask(0o022)
  useMemory()
  // Repeated runs reuse a cluster that is already running.
  const given = process.env["TEST_CLUSTER"]
  if (given !== undefined) return project.provide("cluster", JSON.parse(given))
  const { cluster, stop } = await makeCluster()
  project.provide("cluster", cluster)
  return stop
}
