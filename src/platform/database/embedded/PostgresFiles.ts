/**
 * Where the embedded PostgreSQL keeps its files (contract section 1, "Embedded default").
 *
 * 1. The data folder belongs to whoever starts the service. It holds `postgres/`, which belongs to the account that
 *    runs PostgreSQL.
 * 2. If that account cannot reach the data folder or the installed binaries, PostgreSQL's files move to
 *    /var/lib/bridge-service, and the file `location` in the data folder says so to every later start.
 */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { attempt, ManagedPostgresError } from "./ManagedPostgresError.ts"
import { type Account, accountOf, isRoot, reaches } from "./PostgresAccount.ts"
import { copyBinaries, installedBinaries, makeDatabase } from "./PostgresSetup.ts"

export interface PostgresFiles {
  /** The database itself, 0700. */
  readonly directory: string
  /** The folder of the unix socket, 0700. */
  readonly sockets: string
  /** What PostgreSQL says. It lies in the data folder, where the account that runs PostgreSQL cannot plant a link. */
  readonly log: string
  readonly postgres: string
  readonly account: Account
}

/** Finds the database of `dataDir`, or makes it. */
export const postgresFiles = Effect.fn("ManagedPostgres.files")(function* (dataDir: string, durable = true) {
  const installed = yield* installedBinaries
  const data = yield* attempt(() => createDataDir(dataDir))
  const aside = join("/var/lib/bridge-service", hash(data))
  const located = yield* attempt(() => readLocation(data))
  const home = located ?? ((yield* fits(data, installed)) ? data : aside)
  const directory = join(home, "postgres")
  if (located !== undefined && !fs.existsSync(directory))
    return yield* new ManagedPostgresError({
      message: `${join(data, "location")} names a database that is gone: bring it back, or remove that file to begin anew.`
    })

  const account = yield* accountOf(directory)
  const reachable = yield* attempt(() => reaches(account, join(installed, "bin/postgres")))
  if (home === aside || !reachable) yield* attempt(() => createPassage(aside))
  const binaries = reachable ? installed : yield* copyBinaries(installed, aside)
  yield* makeDatabase({ binaries, directory, account, durable })
  if (located === undefined && home === aside) {
    yield* attempt(() => fs.writeFileSync(join(data, "location"), `${home}\n`, { flush: true }))
    yield* Effect.logInfo(
      `PostgreSQL's files are in ${home}: its account cannot reach ${data} or the installed binaries.`
    )
  }
  const sockets = yield* socketFolder(directory, account)
  const log = join(data, "postgres.log")
  return { directory, sockets, log, postgres: join(binaries, "bin/postgres"), account } satisfies PostgresFiles
})

/** As root the folder lets other accounts pass, or none could reach `postgres/`; what it holds stays closed to them. */
const createDataDir = (dataDir: string) => {
  fs.mkdirSync(dirname(dataDir), { recursive: true })
  const created = fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 }) !== undefined
  if (created && isRoot()) fs.chmodSync(dataDir, 0o711)
  return fs.realpathSync(dataDir)
}

const hash = (path: string) => createHash("sha256").update(path).digest("hex").slice(0, 12)

const readLocation = (data: string) => {
  const file = join(data, "location")
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim() || undefined : undefined
}

/** A database that is there already never moves, whatever was closed around it. */
const fits = Effect.fnUntraced(function* (data: string, installed: string) {
  const directory = join(data, "postgres")
  if (fs.existsSync(directory)) return true
  const account = yield* accountOf(directory)
  return yield* attempt(() => reaches(account, data) && reaches(account, join(installed, "bin/postgres")))
})

const createPassage = (aside: string) => {
  fs.mkdirSync(aside, { recursive: true })
  for (const folder of [dirname(aside), aside]) fs.chmodSync(folder, 0o711)
}

/** In the database folder if the kernel takes a socket path of that length, else in the system's temporary folder. */
const socketFolder = Effect.fnUntraced(function* (directory: string, account: Account) {
  if (Buffer.byteLength(join(directory, ".s.PGSQL.5432")) <= 100) return directory
  const folder = join(tmpdir(), `bridge-service-${hash(directory)}`)
  const stat = yield* attempt(() => {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (account !== undefined && fs.lstatSync(folder).uid === 0) fs.lchownSync(folder, account.uid, account.gid)
    return fs.lstatSync(folder)
  })
  // Anybody may make a folder in the temporary one, and its owner could answer in PostgreSQL's place.
  const own = stat.isDirectory() && stat.uid === (account?.uid ?? process.getuid?.()) && (stat.mode & 0o077) === 0
  if (own) return folder
  return yield* new ManagedPostgresError({ message: `${folder} belongs to somebody else: remove it and start again.` })
})
