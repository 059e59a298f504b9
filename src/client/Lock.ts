/**
 * One process at a time works with a state folder: two that rotate the same token would lock each other out.
 *
 * The lock belongs to the operating system, on an open file. It ends with the process, even after kill -9, so a stale
 * lock is impossible; a file with a pid would survive, and another process may get that pid. Node exposes such a lock
 * only through its SQLite module: `begin exclusive` on an empty database.
 */
import { Effect } from "effect"
import { closeSync, existsSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { FolderError, FolderInUse } from "./Errors.ts"

/** SQLITE_BUSY: another process holds the lock. */
const busy = 5

const open = (path: string) => {
  // Not for an existing file: closing any descriptor of a file drops the locks that this process holds on it (POSIX).
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600))
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    // Nothing is ever written, so the database needs no rollback journal, and no second file appears.
    database.exec("pragma journal_mode = off; begin exclusive")
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

// Keeps each database reachable: garbage collection would close it and release the lock.
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
          ? new FolderInUse({ message: "Another process uses this state folder; stop it first." })
          : new FolderError({ message: `${path}: ${(error as Error).message}.` })
    }),
    (database) =>
      Effect.sync(() => {
        held.delete(database)
        database.close()
      })
  )
