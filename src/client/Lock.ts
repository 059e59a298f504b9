/**
 * One process at a time works with a state folder: two that rotate the same token would strand each other.
 *
 * The lock is the operating system's, on an open file: it ends with the process, however that ends, so there is never a
 * stale one to recognise. Node's own modules take such a lock in one place, its SQLite: `begin exclusive` on a database
 * without content. (A file with a pid in it would survive kill -9, and the next process may have that pid.)
 */
import { Effect } from "effect"
import { closeSync, existsSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { FolderError, FolderInUse } from "./Errors.ts"

/** SQLITE_BUSY: somebody else has the lock. */
const busy = 5

const open = (path: string) => {
  // Only where it is not there yet: to close a file gives up the locks that this process has on it.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600))
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    // Without a journal there is no second file, and nothing to roll back.
    database.exec("pragma journal_mode = off; begin exclusive")
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

// What nobody refers to is collected, and what is collected is closed.
const held = new Set<DatabaseSync>()

/** Held until the scope closes. */
export const locked = (path: string) =>
  Effect.acquireRelease(
    Effect.try({
      try: () => {
        const database = open(path)
        held.add(database)
        return database
      },
      catch: (error) =>
        (error as { readonly errcode?: number }).errcode === busy
          ? new FolderInUse({ message: "Another process works with this state folder; stop it first." })
          : new FolderError({ message: `${path}: ${(error as Error).message}.` })
    }),
    (database) =>
      Effect.sync(() => {
        held.delete(database)
        database.close()
      })
  )
