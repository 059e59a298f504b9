/**
 * One process at a time works with a state folder: two that rotate the same token would lock each other out.
 *
 * The lock belongs to the operating system, on an open file. It ends with the process, even after kill -9, so a stale
 * lock is impossible; a file with a pid would survive, and another process may get that pid. Node exposes such a lock
 * only through its SQLite module: `begin exclusive` on an empty database.
 */
import { Effect } from "effect"
import { accessSync, closeSync, constants, existsSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { FolderInUse, FolderUnavailable, folderFailure } from "../Errors.ts"

/** SQLITE_BUSY: another process holds the lock. */
const busy = 5
/** SQLITE_IOERR, SQLITE_FULL, and SQLITE_CANTOPEN, which after `accessSync` means that no descriptor is free. */
const passing = new Set([10, 13, 14])

const open = (path: string) => {
  // Not for an existing file: closing any descriptor of a file drops the locks that this process holds on it (POSIX).
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600))
  // SQLite would open a file that it cannot write to as read-only, and not say why.
  accessSync(path, constants.R_OK | constants.W_OK)
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
      catch: (error) => {
        // The low byte: the rest tells variants of one code apart.
        const code = ((error as { readonly errcode?: number }).errcode ?? 0) & 0xff
        if (code === busy) return new FolderInUse({ message: "Another process uses this state folder; stop it first." })
        if (passing.has(code)) return new FolderUnavailable({ message: `${path}: ${(error as Error).message}.` })
        return folderFailure(path, error)
      }
    }),
    (database) =>
      Effect.sync(() => {
        held.delete(database)
        database.close()
      })
  )
