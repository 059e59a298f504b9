/**
 * Secrets for the operator, in files that only their account can read, and in nothing else.
 *
 * 1. Each file is created exclusively with mode 0600, and synced with its folder.
 * 2. Only then is the secret made to open anything: `activate` inserts its hash.
 * 3. If that fails or is interrupted, the files are removed again. A process that is lost in between leaves a file that
 *    opens nothing. (A database that commits and is gone before it says so can leave a hash whose secret nobody has.)
 */
import { Data, Effect, Exit, Redacted } from "effect"
import { closeSync, fchmodSync, fsyncSync, openSync, rmSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"

/** The message names the path and why. */
export class FileError extends Data.TaggedError("FileError")<{ readonly message: string }> {}

export interface SecretFile {
  readonly path: string
  readonly secret: Redacted.Redacted<string>
}

export const withSecretFiles = <A, E>(files: ReadonlyArray<SecretFile>, activate: Effect.Effect<A, E>) =>
  Effect.forEach(files, kept, { discard: true }).pipe(
    Effect.andThen(Effect.forEach(new Set(files.map(({ path }) => dirname(path))), synced, { discard: true })),
    Effect.andThen(activate),
    Effect.scoped
  )

const kept = ({ path, secret }: SecretFile) =>
  Effect.acquireRelease(
    fileWork(path, () => write(path, `${Redacted.value(secret)}\n`)),
    (_, exit) => (Exit.isSuccess(exit) ? Effect.void : Effect.sync(() => rmSync(path, { force: true })))
  )

const write = (path: string, content: string) => {
  const file = openSync(path, "wx", 0o600)
  try {
    fchmodSync(file, 0o600)
    writeFileSync(file, content)
    fsyncSync(file)
  } catch (error) {
    rmSync(path, { force: true })
    throw error
  } finally {
    closeSync(file)
  }
}

const synced = (folder: string) => fileWork(folder, () => syncFolder(folder))

/** Without it a power cut could take the name of a new file away again. */
export const syncFolder = (folder: string) => {
  const descriptor = openSync(folder, "r")
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/** Work on a new file. */
export const fileWork = <A>(path: string, work: () => A) =>
  Effect.try({ try: work, catch: (error) => fileError(path, "written", error) })

export const fileError = (path: string, done: "read" | "written", error: unknown) => {
  const { code, message } = error as NodeJS.ErrnoException
  const reason = code === "EEXIST" ? "exists already; name another file." : `cannot be ${done}: ${code ?? message}.`
  return new FileError({ message: `${path} ${reason}` })
}
