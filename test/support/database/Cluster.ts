/**
 * One throwaway PostgreSQL for a whole test run, without fsync; it stops with the run. It is the embedded one, or the one
 * whose programs are in the folder TEST_POSTGRES.
 */
import { Effect, Exit, Redacted, Scope } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { accountOf } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import { type PostgresFiles, postgresFiles } from "../../../src/platform/database/embedded/PostgresFiles.ts"
import { environment } from "../../../src/platform/database/embedded/PostgresSetup.ts"
import { connect, end, launch, retrySchedule } from "../../../src/platform/database/embedded/Postmaster.ts"

export const startCluster = async () => {
  const scope = Scope.makeUnsafe()
  const { directory, host, log, port, username } = await Effect.runPromise(Scope.provide(cluster, scope))
  return { host, port, username, directory, log, stop: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

const cluster = Effect.gen(function* () {
  const data = yield* temporary(mkdtempSync(join(tmpdir(), "bridge-service-test-")))
  chmodSync(data, 0o711)
  const programs = process.env["TEST_POSTGRES"]
  const files = yield* programs === undefined ? postgresFiles(data, false) : filesOf(data, programs)
  yield* temporary(dirname(files.directory))
  trustConnections(files)
  yield* Effect.acquireRelease(
    Effect.sync(() => launch(files, { detached: false, settings: unsyncedSettings })),
    (server) => (server === undefined ? Effect.void : end(server))
  )
  return yield* Effect.scoped(connect(files)).pipe(
    Effect.map(({ postmaster }) => ({ ...postmaster, log: files.log })),
    Effect.retry(retrySchedule),
    Effect.timeout("30 seconds")
  )
})

/** An older PostgreSQL lacks the locale provider of the embedded one. */
const filesOf = Effect.fnUntraced(function* (data: string, programs: string) {
  const directory = join(data, "postgres")
  const account = yield* accountOf(directory)
  mkdirSync(directory, { mode: 0o700 })
  if (account !== undefined) chownSync(directory, account.uid, account.gid)
  const flags = ["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
  execFileSync(join(programs, "initdb"), ["-D", directory, ...flags], { ...account, env: environment, cwd: "/" })
  return {
    directory,
    sockets: directory,
    log: join(data, "postgres.log"),
    postgres: join(programs, "postgres"),
    account,
    password: Redacted.make("")
  } satisfies PostgresFiles
})

/** Tests, and the processes that they start, connect without a password. */
export const trustConnections = ({ directory }: PostgresFiles) =>
  writeFileSync(join(directory, "pg_hba.conf"), "local all all trust\n")

const temporary = (folder: string) =>
  Effect.acquireRelease(Effect.succeed(folder), () =>
    Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )

// The WAL is kept, so that test/attacks/secrets.test.ts can search it.
const unsyncedSettings = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  max_connections: "200",
  wal_keep_size: "512MB"
}
