/** Starts one cluster per run, with one migrated database as the template of every test database. */
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { TestProject } from "vitest/node"
import { migrate } from "../../../src/platform/database/Migrations.ts"
import { startCluster } from "../database/Cluster.ts"
import { makeRoles } from "../database/Roles.ts"

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

export default async (project: TestProject) => {
  // The tests' processes inherit it: documents are not pinned from repositories that a group can write to.
  process.umask(0o022)
  // Repeated runs reuse a cluster that is already running.
  const given = process.env["TEST_CLUSTER"]
  if (given !== undefined) return project.provide("cluster", JSON.parse(given))
  const { cluster, stop } = await makeCluster()
  project.provide("cluster", cluster)
  return stop
}
