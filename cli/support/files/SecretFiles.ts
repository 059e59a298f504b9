/**
 * Writes secrets for the operator to files that only their account can read.
 *
 * 1. Create each file exclusively with mode 0600, then sync the file and its folder.
 * 2. Only then run `activate`, which inserts the hash and so makes the secret valid.
 * 3. If `activate` fails or is interrupted, remove the files. A crash in between leaves a file with an invalid secret.
 *    If the database commits but its answer is lost, a hash can remain whose secret nobody has.
 */
import { Data, Effect, Exit, Redacted } from "effect"
import { closeSync, fchmodSync, fsyncSync, openSync, rmSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { syncFolder } from "../../../src/platform/settings/WholeFile.ts"

/** The message names the path and the reason. */
export class FileError extends Data.TaggedError("FileError")<{ readonly message: string }> {}

export interface SecretFile {
  readonly path: string
  readonly secret: Redacted.Redacted<string>
}

export const withSecretFiles = <A, E>(files: ReadonlyArray<SecretFile>, activate: Effect.Effect<A, E>) =>
  Effect.forEach(files, created, { discard: true }).pipe(
    Effect.andThen(Effect.forEach(new Set(files.map(({ path }) => dirname(path))), synced, { discard: true })),
    Effect.andThen(activate),
    Effect.scoped
  )

/** The file exists until the scope closes, and remains if the scope closes with success. */
const created = ({ path, secret }: SecretFile) =>
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

/** Runs synchronous work that writes `path`. */
export const fileWork = <A>(path: string, work: () => A) =>
  Effect.try({ try: work, catch: (error) => fileError(path, "written", error) })

export const fileError = (path: string, done: "read" | "written", error: unknown) => {
  const { code, message } = error as NodeJS.ErrnoException
  const reason = code === "EEXIST" ? "already exists; choose another name." : `cannot be ${done}: ${code ?? message}.`
  return new FileError({ message: `${path} ${reason}` })
}
