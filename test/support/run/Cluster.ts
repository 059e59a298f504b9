/** One throwaway PostgreSQL for a whole test run, without fsync; it stops with the run. */
import { Effect, Exit, Scope } from "effect"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { type PostgresFiles, postgresFiles } from "../../../src/platform/database/embedded/PostgresFiles.ts"
import { connect, end, launch, retrySchedule } from "../../../src/platform/database/embedded/Postmaster.ts"

export const startCluster = async () => {
  const scope = Scope.makeUnsafe()
  const { directory, host, log, port, username } = await Effect.runPromise(Scope.provide(cluster, scope))
  return { host, port, username, directory, log, stop: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

const cluster = Effect.gen(function* () {
  const data = yield* temporary(mkdtempSync(join(tmpdir(), "bridge-service-test-")))
  chmodSync(data, 0o711)
  const files = yield* postgresFiles(data, false)
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
