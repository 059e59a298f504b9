/**
 * The folder SERVICE_BACKUP_DIR.
 *
 *     bridge-service-2026-11-23T19-40-05-123Z.backup            a backup, named by the time of its snapshot
 *     bridge-service-2026-11-23T19-40-05-123Z.backup.checked    what became of it when it was tried, as JSON
 *     bridge-service-2026-11-23T19-40-05-123Z.backup.partial    one that is being written, or that a crash cut off
 *
 * A result counts only for the file that was tried: any write to the file since then, and any copy of it, has another
 * size or change time, which nobody sets at will, and is tried again.
 *
 * Other accounts may be able to write to the folder. Only regular files are read in it, results only up to a size, and no
 * other entry keeps the service from making and trying its backups.
 *
 * All work on files is asynchronous: a slow disk must not stop the requests.
 */
import { Data, Effect, Option, Schema, Stream } from "effect"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"
import { basename, dirname, join, resolve } from "node:path"

/** The folder cannot be used, or the disk is full. The message names the path and the reason. */
export class BackupFolderError extends Data.TaggedError("BackupFolderError")<{ readonly message: string }> {}

/** How a backup was tried. `foreign`: signed with another key. `failed`: whole, but no database could be made of it. */
export const Outcome = Schema.Literals(["restored", "read", "damaged", "foreign", "failed"])
export type Outcome = typeof Outcome.Type

const Result = Schema.Struct({
  size: Schema.Int,
  /** Nanoseconds. */
  changed: Schema.String,
  outcome: Outcome,
  /** Why it was not restored, or not even read; null if it was. */
  reason: Schema.NullOr(Schema.String),
  /** The key that verified it. */
  key: Schema.NullOr(Schema.String),
  /** The time of the snapshot; null if the file could not be read. */
  created_at: Schema.NullOr(Schema.DateFromString),
  tried_at: Schema.DateFromString
})
export type Result = typeof Result.Type
const ResultJson = Schema.fromJsonString(Result)

export interface Found {
  readonly name: string
  readonly path: string
  /** When it was begun, as its name says. */
  readonly at: Date
  /** The result of the last trial, if the file is still the same. */
  readonly result: Option.Option<Result>
}

const backupName = /^bridge-service-[\dTZ-]{24}\.backup$/
const draftName = /^bridge-service-[\dTZ-]{24}\.backup\.partial$/

/** Whether a path names a backup of the folder. */
export const isOf = (folder: string, path: string) =>
  dirname(resolve(path)) === folder && backupName.test(basename(path))

/** Where a path leads that an operator names: it may be a link. */
export const targetOf = (path: string) => work(path, () => fs.realpath(path))

export const nameOf = (at: Date) => `bridge-service-${at.toISOString().replaceAll(/[:.]/g, "-")}.backup`

const work = <A>(path: string, run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (error) => {
      const { code, message } = error as NodeJS.ErrnoException
      return new BackupFolderError({ message: `${path} cannot be used: ${code ?? message}.` })
    }
  }).pipe(answering(path))

/** A network disk that is away can keep a call waiting for ever. */
const answering = (path: string) =>
  Effect.timeoutOrElse({
    duration: "5 minutes",
    orElse: () => Effect.fail(new BackupFolderError({ message: `${path} cannot be used: the disk does not answer.` }))
  })

/** Makes the folder, but not the one around it: if that is missing, a disk is not mounted. */
export const prepare = (folder: string) =>
  work(folder, () =>
    fs.mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error
    })
  )

/** The backups, newest first. */
export const list = Effect.fnUntraced(function* (folder: string) {
  const names = yield* work(folder, async () => {
    const { mode } = await fs.stat(folder)
    // With the sticky bit nobody can move or delete the files of another account. A group has the right on purpose.
    if ((mode & 0o1002) === 0o002) throw new Error("every account can write to it; run chmod o-w on it")
    return fs.readdir(folder)
  })
  return yield* Effect.forEach(
    names
      .filter((name) => backupName.test(name))
      .toSorted()
      .toReversed(),
    (name) =>
      Effect.map(resultOf(join(folder, name)), (result): Found => ({
        name,
        path: join(folder, name),
        at: timeOf(name),
        result
      }))
  )
})

const timeOf = (name: string) => new Date(name.slice(15, 39).replace(/T(..)-(..)-(..)-/, "T$1:$2:$3."))

/** Whether the folder belongs to an account that is neither this one nor root. */
export const isForeign = (folder: string) =>
  work(folder, async () => {
    const { uid } = await fs.stat(folder)
    return uid !== 0 && uid !== process.getuid?.()
  })

const resultOf = Effect.fnUntraced(function* (path: string) {
  const text = yield* Effect.option(work(path, () => resultText(`${path}.checked`)))
  const result = Option.flatMap(text, Schema.decodeOption(ResultJson))
  const mark = yield* Effect.option(markOf(path))
  return Option.filter(
    result,
    ({ changed, size }) => Option.isSome(mark) && mark.value.changed === changed && mark.value.size === size
  )
})

/** In bytes; a result has some three hundred. */
const longestResult = 4096

const resultText = async (path: string) => {
  const file = await opened(path)
  try {
    const bytes = Buffer.alloc(longestResult + 1)
    const { bytesRead } = await file.read(bytes)
    if (bytesRead > longestResult) throw new Error("it is too long for a result")
    return bytes.toString("utf8", 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Follows no link, and does not wait for somebody to write to a pipe. */
const opened = async (path: string) => {
  const file = await fs.open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    requireFile(await file.stat())
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

const requireFile = (stat: { readonly isFile: () => boolean }) => {
  if (!stat.isFile()) throw new Error("it is not a regular file")
}

/** Changes with every write to the file. */
export const markOf = (path: string) =>
  work(path, async () => {
    const stat = await fs.lstat(path, { bigint: true })
    requireFile(stat)
    return { changed: `${stat.ctimeNs}`, size: Number(stat.size) }
  })

/** Follows no link that somebody else who may write to the folder has put there. */
const created = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

export const keep = (path: string, result: Result) =>
  work(path, async () => {
    const draft = `${path}.checked.partial`
    await fs.rm(draft, { force: true })
    const file = await fs.open(draft, created, 0o600)
    try {
      await file.writeFile(`${Schema.encodeSync(ResultJson)(result)}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await fs.rename(draft, `${path}.checked`)
  })

/** The backup goes first: a result without a backup means nothing. */
export const remove = (path: string) =>
  work(path, async () => {
    for (const file of [path, `${path}.checked`, `${path}.checked.partial`]) await removeFile(file)
  })

/** Removes what a crash left half written. Only for the holder of the lock. */
export const removeDrafts = (folder: string) =>
  work(folder, async () => {
    for (const name of await fs.readdir(folder)) if (draftName.test(name)) await removeFile(join(folder, name))
  })

/** A folder under such a name is not the service's: it stays. */
const removeFile = (path: string) =>
  fs.rm(path, { force: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ERR_FS_EISDIR") throw error
  })

/**
 * Gives `fill` a function that appends to a draft, and renames the draft once `fill` has succeeded and everything is on
 * the disk. A twentieth of the disk stays free: the database may be on the same one.
 */
export const write = <A, E>(
  folder: string,
  name: string,
  fill: (append: (text: string) => Effect.Effect<void, BackupFolderError>) => Effect.Effect<A, E>
) => {
  const path = join(folder, name)
  const draft = `${path}.partial`
  let sinceLook = Infinity
  return Effect.acquireUseRelease(
    work(draft, () => fs.open(draft, created, 0o600)),
    (file) =>
      fill((text) =>
        work(draft, async () => {
          if (sinceLook > lookEvery) {
            if ((await room(folder)) <= 0) throw new Error("less than a twentieth of the disk is free")
            sinceLook = 0
          }
          sinceLook += text.length
          await file.writeFile(text)
        }).pipe(Effect.andThen(yieldTo))
      ).pipe(
        Effect.tap(() =>
          work(path, async () => {
            await file.sync()
            await fs.rename(draft, path)
            const parent = await fs.open(folder, "r")
            await parent.sync().finally(() => parent.close())
          })
        )
      ),
    (file) => Effect.ignore(work(draft, () => file.close().finally(() => fs.rm(draft, { force: true }))))
  )
}

/** In characters. */
const lookEvery = 16_000_000

/** Bytes that may be written before less than a twentieth of the disk is free. */
const room = async (folder: string) => {
  const { bavail, blocks, bsize } = await fs.statfs(folder)
  return (bavail - blocks / 20) * bsize
}

export const roomIn = (folder: string) => work(folder, () => room(folder))

/** The content of a file, read gently. */
export const contents = (path: string) => {
  const pieces = Stream.fromAsyncIterable<Uint8Array, BackupFolderError>(
    { [Symbol.asyncIterator]: () => piecesOf(path) },
    (error) =>
      new BackupFolderError({
        message: `${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}.`
      })
  )
  return Stream.transformPull(pieces, (pull) => Effect.succeed(answering(path)(pull))).pipe(Stream.tap(() => yieldTo))
}

async function* piecesOf(path: string): AsyncGenerator<Uint8Array, void> {
  yield* (await opened(path)).createReadStream()
}

/** Lets requests go first, for as long as they take and a little longer. */
const yieldTo = Effect.sleep("1 millis")
