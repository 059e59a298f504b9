/** The folder SERVICE_DATA_DIR: only the account of the service may write it, or read the secrets in it. */
import { Data } from "effect"
import * as fs from "node:fs"
import { dirname, join } from "node:path"

/** The data folder cannot be used until somebody mends it; the message says how. The process ends with exit code 78. */
export class DataFolderError extends Data.TaggedError("DataFolderError")<{ readonly message: string }> {}

export const secretsFile = (dataDir: string) => join(dataDir, "secrets.env")
export const passwordFile = (dataDir: string) => join(dataDir, "postgres.password")

/** Whether a start has set up the embedded database of `dataDir`. */
export const isMade = (dataDir: string) => ["postgres", "location"].some((name) => fs.existsSync(join(dataDir, name)))

/**
 * Makes a folder and those above it, and tells whether it was not there. Node's own way never returns where the system
 * makes no folders, such as in /proc.
 */
export const makeFolder = (path: string, mode: number): boolean => {
  if (fs.existsSync(path)) return false
  if (!fs.existsSync(dirname(path))) makeFolder(dirname(path), 0o777)
  try {
    fs.mkdirSync(path, { mode })
    return true
  } catch (error) {
    // Another process made it meanwhile.
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
}

/** One sentence that ends with the command to run; undefined if the folder is safe, or is not there yet. */
export const whatIsUnsafe = (dataDir: string): string | undefined => {
  const folder = fs.statSync(dataDir, { throwIfNoEntry: false })
  if (folder === undefined) return undefined
  if (isForeign(folder)) return foreign(dataDir)
  if ((folder.mode & 0o022) !== 0) return `Other accounts can write to ${dataDir}; run: chmod go-w ${quoted(dataDir)}`
  for (const file of [secretsFile(dataDir), passwordFile(dataDir)]) {
    const secret = fs.statSync(file, { throwIfNoEntry: false })
    if (secret === undefined) continue
    if (isForeign(secret)) return foreign(file)
    if ((secret.mode & 0o077) !== 0) return `Other accounts can read ${file}; run: chmod 600 ${quoted(file)}`
  }
  return undefined
}

const isForeign = ({ uid }: fs.Stats) => process.getuid !== undefined && uid !== process.getuid()

const foreign = (path: string) =>
  `${path} belongs to another account: start as that account, or run: chown ${process.getuid?.()} ${quoted(path)}`

const quoted = (path: string) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`)
