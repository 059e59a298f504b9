/**
 * Where the embedded PostgreSQL keeps its files.
 *
 * 1. The data folder belongs to the account that starts the service. It holds `postgres/`, which belongs to the account
 *    that runs PostgreSQL.
 * 2. If that account cannot reach the data folder or the installed binaries, PostgreSQL's files go to
 *    /var/lib/bridge-service instead, and the file `location` in the data folder names the place for later starts.
 * 3. Binaries that cannot be used where they are installed are copied beside the database.
 */
import { Effect, type Redacted } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { DataFolderError, makeFolder } from "../../settings/DataFolder.ts"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import { type Account, accountOf, isRoot, reaches } from "./PostgresAccount.ts"
import { passwordOf } from "./PostgresPassword.ts"
import { copyBinaries, haveLinks, installedBinaries, makeDatabase } from "./PostgresSetup.ts"

export interface PostgresFiles {
  /** The database itself, 0700. */
  readonly directory: string
  /** The folder of the unix socket, 0700. */
  readonly sockets: string
  /** PostgreSQL's log. It is in the data folder, where the account that runs PostgreSQL cannot create a symlink. */
  readonly log: string
  readonly postgres: string
  readonly account: Account
  readonly password: Redacted.Redacted<string>
}

/** Finds or creates the database of `dataDir`. */
export const postgresFiles = Effect.fn("EmbeddedPostgres.files")(function* (dataDir: string, durable = true) {
  const installed = yield* installedBinaries
  const data = yield* attempt(() => createDataDir(dataDir))
  const aside = join("/var/lib/bridge-service", hash(data))
  const located = yield* attempt(() => readLocation(data))
  const home = located ?? ((yield* fits(data, installed)) ? data : aside)
  const directory = join(home, "postgres")
  if (located !== undefined && !fs.existsSync(directory))
    return yield* new DataFolderError({
      message: `${join(data, "location")} names a database that is gone: bring it back, or remove that file to begin anew.`
    })

  const account = yield* accountOf(directory)
  const usable = yield* attempt(() => reaches(account, join(installed, "bin/postgres")) && haveLinks(installed))
  if (home === aside || (!usable && isRoot())) yield* attempt(() => createPassage(aside))
  const binaries = usable ? installed : yield* copyBinaries(installed, isRoot() ? aside : data)
  yield* makeDatabase({ binaries, directory, account, durable })
  if (located === undefined && home === aside) {
    yield* attempt(() => fs.writeFileSync(join(data, "location"), `${home}\n`, { flush: true }))
    yield* Effect.logInfo(
      `PostgreSQL's files are in ${home}: its account cannot reach ${data} or the installed binaries.`
    )
  }
  const sockets = yield* socketFolder(directory, account)
  const log = join(data, "postgres.log")
  const password = yield* attempt(() => passwordOf(data))
  return {
    directory,
    sockets,
    log,
    postgres: join(binaries, "bin/postgres"),
    account,
    password
  } satisfies PostgresFiles
})

/** As root, 0711: PostgreSQL's account must be able to traverse the folder. The files in it stay closed to others. */
const createDataDir = (dataDir: string) => {
  if (makeFolder(dataDir, 0o700) && isRoot()) fs.chmodSync(dataDir, 0o711)
  return fs.realpathSync(dataDir)
}

const hash = (path: string) => createHash("sha256").update(path).digest("hex").slice(0, 12)

const readLocation = (data: string) => {
  const file = join(data, "location")
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim() || undefined : undefined
}

/** An existing database never moves, even if its folder was closed to PostgreSQL's account later. */
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

/** The database folder, or a folder in the system's temporary one if the socket's path would be too long for the kernel. */
const socketFolder = Effect.fnUntraced(function* (directory: string, account: Account) {
  if (Buffer.byteLength(join(directory, ".s.PGSQL.5432")) <= 100) return directory
  const folder = join(tmpdir(), `bridge-service-${hash(directory)}`)
  const stat = yield* attempt(() => {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (account !== undefined && fs.lstatSync(folder).uid === 0) fs.lchownSync(folder, account.uid, account.gid)
    return fs.lstatSync(folder)
  })
  // Any account can create this folder first, and could then serve its own socket in it.
  const own = stat.isDirectory() && stat.uid === (account?.uid ?? process.getuid?.()) && (stat.mode & 0o077) === 0
  if (own) return folder
  return yield* new EmbeddedPostgresError({ message: `${folder} belongs to somebody else: remove it and start again.` })
})
