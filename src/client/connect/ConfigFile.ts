/** Reads and replaces configuration files: whole or not at all, and only regular files of a client. */
import { Data, Effect } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { dirname, sep } from "node:path"

/** The file stays as it was; the message says why, and what to do. */
export class ConfigRefused extends Data.TaggedError("ConfigRefused")<{ readonly message: string }> {}

const maxBytes = 32 * 1024 * 1024

const byHand = "Make the change by hand; --print shows it."

export const refused = (path: string, why: string) =>
  new ConfigRefused({ message: `${path} ${why}. Nothing was changed. ${byHand}` })

const work = <A>(path: string, what: string, attempt: () => A) =>
  Effect.try({
    try: attempt,
    catch: (error) => refused(path, `cannot be ${what} (${(error as NodeJS.ErrnoException).code ?? "unknown error"})`)
  })

/** The text of a file; undefined if it does not exist. */
export const read = Effect.fnUntraced(function* (path: string) {
  const stat = yield* work(path, "read", () => fs.lstatSync(path, { throwIfNoEntry: false }))
  if (stat === undefined) return undefined
  if (stat.isSymbolicLink()) return yield* refused(path, "is a symbolic link, and the file behind it may be shared")
  if (!stat.isFile()) return yield* refused(path, "is not a regular file")
  if (stat.size > maxBytes) return yield* refused(path, "is larger than 32 MiB")
  const bytes = yield* work(path, "read", () => fs.readFileSync(path))
  const text = bytes.toString("utf8")
  if (!Buffer.from(text, "utf8").equals(bytes)) return yield* refused(path, "is not UTF-8")
  return text
})

/** Refuses a file that a replacement would not serve. */
export const requireReplaceable = Effect.fnUntraced(function* (path: string) {
  const stat = yield* work(path, "read", () => fs.statSync(path, { throwIfNoEntry: false }))
  if (stat === undefined) return
  // An account that may do everything may also replace a read-only file, which its owner protected for a reason.
  if ((stat.mode & 0o222) === 0) return yield* refused(path, "is read-only")
  yield* work(path, "written", () => fs.accessSync(path, fs.constants.W_OK))
  if (stat.nlink > 1) return yield* refused(path, "has another hard link, which would keep the old text")
})

/**
 * Replaces the text `before` of a file by `after`; null deletes it, and the folders above it that are empty then, up to
 * one of `roots`. Refused if the file has changed since it was read.
 */
export const replace = Effect.fnUntraced(function* (
  path: string,
  before: string | undefined,
  after: string | null,
  roots: ReadonlyArray<string>
) {
  if ((yield* read(path)) !== before) return yield* refused(path, "has just been changed by another program")
  if (after === null) {
    return yield* work(path, "deleted", () => {
      fs.rmSync(path)
      removeEmpty(dirname(path), roots)
    })
  }
  const draft = `${path}.${randomBytes(6).toString("hex")}.partial`
  const made = yield* work(path, "written", () => fs.mkdirSync(dirname(path), { recursive: true }))
  yield* work(path, "written", () => {
    const mode = before === undefined ? 0o600 : fs.statSync(path).mode & 0o777
    const file = fs.openSync(draft, "wx", mode)
    try {
      fs.writeFileSync(file, after)
      // The umask does not apply to a file that replaces another.
      if (before !== undefined) fs.fchmodSync(file, mode)
      fs.fsyncSync(file)
    } finally {
      fs.closeSync(file)
    }
    fs.renameSync(draft, path)
  }).pipe(
    Effect.tapError(() =>
      Effect.sync(() => {
        fs.rmSync(draft, { force: true })
        if (made !== undefined) removeEmpty(dirname(path), [dirname(made)])
      })
    )
  )
})

/** Removes empty folders from `folder` upwards, below one of `roots`. */
const removeEmpty = (folder: string, roots: ReadonlyArray<string>) => {
  const isBelow = roots.some((root) => folder.startsWith(root + sep))
  if (!isBelow || roots.includes(folder) || fs.readdirSync(folder).length > 0) return
  fs.rmdirSync(folder)
  removeEmpty(dirname(folder), roots)
}
