/** A PostgreSQL and its standby, which a test can promote. */
import { PgConnection } from "@effect/sql-pg"
import { Context, Effect, Layer, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { type PostgresFiles, postgresFiles } from "../../../src/platform/database/embedded/PostgresFiles.ts"
import { connect, end, launch, retrySchedule } from "../../../src/platform/database/embedded/Postmaster.ts"
import { throwAwayCertificate } from "../phones/ThrowAwayCertificate.ts"
import { freePort } from "../network/FreePort.ts"

const settings = { fsync: "off", full_page_writes: "off" }

const launched = Effect.fnUntraced(function* (files: PostgresFiles, more: object = {}) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => launch(files, { detached: false, settings: { ...settings, ...more } })!),
    end
  )
  const { host, port, username } = yield* Effect.scoped(connect(files)).pipe(
    Effect.map(({ postmaster }) => postmaster),
    Effect.retry(retrySchedule),
    Effect.timeout("60 seconds")
  )
  /** On a connection of its own, past every pool. */
  const query = (statement: string) =>
    Effect.scoped(
      Effect.flatMap(PgConnection.make({ host, port, username, database: "postgres" }), (session) =>
        Effect.map(session.query(statement), ({ rows }) => rows)
      )
    )
  return { at: { host, port, username, database: "postgres" }, child, directory: files.directory, query }
})

const temporary = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.mkdtempSync(join(tmpdir(), "bridge-service-pair-"))
    fs.chmodSync(folder, 0o711)
    return folder
  }),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

export class Pair extends Context.Service<Pair, Effect.Success<typeof pair>>()("test/Pair") {
  static readonly layer = Layer.effect(Pair, Effect.orDie(Effect.suspend(() => pair)))
}

const pair = Effect.gen(function* () {
  const folder = yield* temporary
  const files = yield* postgresFiles(folder, false)
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      const home = dirname(files.directory)
      if (home !== folder) fs.rmSync(home, { recursive: true, force: true })
    })
  )
  const access = [
    "local all all trust",
    "local replication all trust",
    "hostssl template1 all 127.0.0.1/32 cert",
    "hostssl all all 127.0.0.1/32 trust"
  ]
  fs.writeFileSync(join(files.directory, "pg_hba.conf"), `${access.join("\n")}\n`)
  const certificate = throwAwayCertificate({ host: "postgres" })
  for (const [name, text] of Object.entries(certificate)) {
    const file = join(files.directory, `server.${name}`)
    fs.writeFileSync(file, text, { mode: 0o600 })
    if (files.account !== undefined) fs.chownSync(file, files.account.uid, files.account.gid)
  }
  // Copied before it ever ran, and with its owner.
  const directory = `${files.directory}-standby`
  execFileSync("cp", ["-a", files.directory, directory])
  fs.writeFileSync(join(directory, "standby.signal"), "")
  const sockets = files.sockets === files.directory ? directory : `${files.sockets}-standby`
  if (sockets !== directory) execFileSync("cp", ["-a", files.sockets, sockets])

  const primary = yield* launched(files, {
    listen_addresses: "127.0.0.1",
    port: yield* freePort,
    ssl: "on",
    ssl_cert_file: "server.cert",
    ssl_key_file: "server.key",
    ssl_ca_file: "server.cert"
  })
  const standby = yield* launched(
    { ...files, directory, sockets, log: `${files.log}-standby` },
    { primary_conninfo: `host=${primary.at.host} port=${primary.at.port} user=${primary.at.username}` }
  )
  const isPromoted = standby.query("select pg_is_in_recovery() as no").pipe(Effect.map(([row]) => row!["no"] === false))
  /** To the primary and all its processes. */
  const signal = (name: NodeJS.Signals) =>
    Effect.sync(() => {
      const { pid } = primary.child
      const processes = execFileSync("pgrep", ["-P", `${pid}`], { encoding: "utf8" })
        .trim()
        .split("\n")
        .map(Number)
      for (const each of [pid!, ...processes]) process.kill(each, name)
    })
  return {
    /** Of the primary, which is its own authority: for the name `postgres` and for 127.0.0.1. As a client it is `postgres`. */
    certificate: { file: join(files.directory, "server.cert"), key: join(files.directory, "server.key") },
    primary,
    standby,
    /** Stops every process of the primary until the scope closes. */
    freeze: Effect.acquireRelease(signal("SIGSTOP"), () => signal("SIGCONT")),
    promote: Effect.gen(function* () {
      if (yield* isPromoted) return
      yield* standby.query("select pg_promote()")
      yield* Effect.repeat(isPromoted, { until: (is) => is, schedule: Schedule.spaced("20 millis") })
    })
  }
})
