/** Chooses the account that runs the embedded PostgreSQL, which refuses to run as root. */
import { Effect } from "effect"
import * as fs from "node:fs"
import { dirname } from "node:path"
import { DataFolderError } from "../../settings/DataFolder.ts"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"

/** Undefined: the account of this process. */
export type Account = { readonly uid: number; readonly gid: number } | undefined

export const isRoot = () => process.getuid?.() === 0

/** The owner of an existing database. For a new one, root takes `postgres` if that account exists, else `nobody`. */
export const accountOf = Effect.fnUntraced(function* (directory: string) {
  const owner = yield* attempt(() => fs.statSync(directory, { throwIfNoEntry: false }))
  if (!isRoot()) {
    if (owner === undefined || owner.uid === process.getuid?.()) return undefined
    return yield* new DataFolderError({
      message: `The embedded database in ${directory} belongs to another account: start as that account, or as root.`
    })
  }
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  const accounts = (yield* attempt(() => fs.readFileSync("/etc/passwd", "utf8")))
    .split("\n")
    .map((line) => line.split(":"))
  const chosen = accounts.find(([name]) => name === "postgres") ?? accounts.find(([name]) => name === "nobody")
  if (chosen !== undefined) return { uid: Number(chosen[2]), gid: Number(chosen[3]) }
  return yield* new EmbeddedPostgresError({
    message: "PostgreSQL does not run as root: add an account named postgres, or start as another account."
  })
})

/** Whether the account can traverse to the path. Reads mode bits only: missing an ACL only costs a copy of binaries. */
export const reaches = (account: Account, path: string): boolean => {
  if (account === undefined) return true
  const { uid, gid, mode } = fs.statSync(path)
  const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
  return (mode & bit) !== 0 && (path === "/" || reaches(account, dirname(path)))
}
