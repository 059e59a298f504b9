/**
 * A PostgreSQL of the script's own, as an operator runs one beside the service. It syncs every commit, and nothing
 * restarts it. Servers reach it through a relay (test/support/network/Relay.ts).
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { ChildProcess } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { postgresFiles } from "../../../../../src/platform/database/embedded/PostgresFiles.ts"
import { connect, hasEnded, launch, retrySchedule } from "../../../../../src/platform/database/embedded/Postmaster.ts"
import { trustConnections } from "../../../../support/database/Cluster.ts"
import { beginData, ChaosError } from "../../harness.ts"

export const ownPostgres = Effect.fnUntraced(function* (folder: string) {
  yield* beginData(folder)
  const files = yield* postgresFiles(join(folder, "data"))
  trustConnections(files)
  let child: ChildProcess | undefined
  const start = Effect.suspend(() => {
    child = launch(files, { detached: false, settings: { max_connections: "200" } })
    return Effect.scoped(connect(files)).pipe(Effect.retry(retrySchedule), Effect.timeout("30 seconds"))
  }).pipe(Effect.mapError(() => new ChaosError({ message: "The script's own PostgreSQL did not start." })))
  const stop = (signal: NodeJS.Signals) =>
    Effect.promise(async () => {
      if (child === undefined || hasEnded(child)) return
      child.ref()
      const gone = once(child, "exit")
      child.kill(signal)
      await gone
    })
  const { postmaster } = yield* Effect.acquireRelease(start, () => stop("SIGINT"))

  const { database, host, port, username } = postmaster
  const sql = Context.get(
    yield* Layer.build(
      PgClient.layer({ host, port, username, database, applicationName: "chaos", maxConnections: 4 })
    ).pipe(Effect.orDie),
    SqlClient.SqlClient
  )
  const socket = { path: `${host}/.s.PGSQL.${port}` }
  const over = (line: { readonly port: number }) => settingsOver(line, username, database)

  return {
    /** A direct connection, past every relay, for inspection and for locks. */
    sql,
    socket,
    /** The settings of a server that connects through this relay. */
    over,
    /** `pg_ctl restart -m immediate`: PostgreSQL does not shut down cleanly and recovers from its WAL. */
    restart: Effect.andThen(stop("SIGQUIT"), start),
    /** The process ids of the servers' sessions. */
    backends: sql<{ readonly pid: number }>`
      select pid
        from pg_stat_activity
       where application_name = 'bridge-service'
         and backend_type = 'client backend'`.pipe(
      Effect.map((rows) => rows.map(({ pid }) => pid)),
      Effect.orDie
    ),
    /** Waits until it accepts statements again. */
    answering: Effect.ignore(sql`select 1`.pipe(Effect.retry(Schedule.spaced("10 millis"))))
  }
})

/** The settings of a server that connects through a relay. */
export const settingsOver = (
  line: { readonly port: number },
  username: string,
  database: string
): Readonly<Record<string, string>> => ({
  SERVICE_BRIDGE_ENROLLMENT_SECRET: "enrollment-secret-of-the-chaos-0123456789",
  SERVICE_BRIDGE_TOKEN_SECRET: "token-secret-of-the-chaos-0123456789abcdef",
  SERVICE_OAUTH_SECRET: "oauth-secret-of-the-chaos-0123456789abcdef",
  DATABASE_URL: `postgres://${username}@127.0.0.1:${line.port}/${database}`
})
