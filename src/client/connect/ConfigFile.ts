/** Reads and replaces configuration files of a client: whole or not at all, and behind the links that lead to them. */
import { Data, Effect } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { basename, dirname, join, sep } from "node:path"

/** The file stays as it was; the message says why, and what to do. */
export class ConfigRefused extends Data.TaggedError("ConfigRefused")<{ readonly message: string }> {}

const maxBytes = 32 * 1024 * 1024

const byHand = "Make the change by hand; --print shows it."

export const refused = (path: string, why: string, remedy = byHand) =>
  new ConfigRefused({ message: `${path} ${why}. Nothing was changed. ${remedy}` })

const work = <A>(path: string, what: string, attempt: () => A) =>
  Effect.try({
    try: attempt,
    catch: (error) => refused(path, `cannot be ${what} (${(error as NodeJS.ErrnoException).code ?? "unknown error"})`)
  })

/**
 * The file to which a path leads through symbolic links; it need not exist. It is refused outside of the folder `within`: a
 * link in a project may come from somebody else.
 */
export const follow = Effect.fnUntraced(function* (path: string, within: string) {
  const both = () => [realPath(path), realPath(within)] as const
  const [target, folder] = yield* work(path, "followed through its symbolic links", both)
  if (isBelow(target, folder)) return target
  const remedy = "Remove the symbolic link, or make the change by hand; --print shows it."
  return yield* refused(path, `leads to ${target}, outside of ${folder}`, remedy)
})

/** What does not exist keeps its name. A link that leads nowhere exists, and fails. */
const realPath = (path: string): string =>
  fs.lstatSync(path, { throwIfNoEntry: false }) === undefined
    ? join(realPath(dirname(path)), basename(path))
    : fs.realpathSync(path)

const isBelow = (path: string, folder: string) => path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

/** The text of a file; undefined if it does not exist. */
export const read = Effect.fnUntraced(function* (path: string) {
  const stat = yield* work(path, "read", () => fs.lstatSync(path, { throwIfNoEntry: false }))
  if (stat === undefined) return undefined
  if (!stat.isFile()) return yield* refused(path, "is not a regular file")
  if (stat.size > maxBytes) return yield* refused(path, "is larger than 32 MiB")
  const bytes = yield* work(path, "read", () => fs.readFileSync(path))
  const text = bytes.toString("utf8")
  if (!Buffer.from(text, "utf8").equals(bytes)) return yield* refused(path, "is not UTF-8")
  return text
})

export interface Change {
  readonly path: string
  /** Undefined if there is no such file. */
  readonly before: string | undefined
  /** Null deletes the file, and the folders above it that are empty then. */
  readonly after: string | null
}

/**
 * Replaces the text of files. Everything is written beside them before the first is replaced, so that a file that is refused
 * and a full disk leave all as they were. Folders are removed up to one of `roots`.
 */
export const replaceAll = Effect.fnUntraced(function* (changes: ReadonlyArray<Change>, roots: ReadonlyArray<string>) {
  for (const { path } of changes) yield* requireReplaceable(path)
  const drafts = yield* Effect.forEach(changes, drafted)
  for (const { before, path } of changes)
    if ((yield* read(path)) !== before) return yield* refused(path, "has just been changed by another program")
  for (const { draft, path } of drafts)
    yield* work(path, draft === undefined ? "deleted" : "written", () => {
      if (draft !== undefined) return fs.renameSync(draft, path)
      const ends = roots.map(realPath)
      fs.rmSync(path)
      removeEmpty(dirname(path), ends)
    })
}, Effect.scoped)

/** Refuses a file that a replacement would not serve. */
const requireReplaceable = Effect.fnUntraced(function* (path: string) {
  const stat = yield* work(path, "read", () => fs.statSync(path, { throwIfNoEntry: false }))
  if (stat === undefined) return
  // An account that may do everything may also replace a read-only file, which its owner protected for a reason.
  if ((stat.mode & 0o222) === 0) return yield* refused(path, "is read-only")
  yield* work(path, "written", () => fs.accessSync(path, fs.constants.W_OK))
  if (stat.nlink > 1) return yield* refused(path, "has another hard link, which would keep the old text")
})

/** The new text beside the file, until the scope closes; it is gone then, or has become the file. */
const drafted = Effect.fnUntraced(function* ({ after, before, path }: Change) {
  if (after === null) return { path, draft: undefined }
  const folder = dirname(path)
  yield* Effect.acquireRelease(
    work(path, "written", () => fs.mkdirSync(folder, { recursive: true })),
    (first) => Effect.sync(() => first !== undefined && removeEmpty(folder, [dirname(first)]))
  )
  const draft = `${path}.${randomBytes(6).toString("hex")}.partial`
  yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(draft, { force: true })))
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
  })
  return { path, draft }
})

/** Removes empty folders from `folder` upwards, below one of `roots`. */
const removeEmpty = (folder: string, roots: ReadonlyArray<string>) => {
  const isInside = roots.some((root) => isBelow(folder, root))
  if (!isInside || roots.includes(folder) || fs.readdirSync(folder).length > 0) return
  fs.rmdirSync(folder)
  removeEmpty(dirname(folder), roots)
}
