/** Files that stand for a whole result or for nothing, and files that are read piece by piece. */
import { Effect, Stream } from "effect"
import * as fs from "node:fs"
import { dirname } from "node:path"
import { fileError, fileWork, syncFolder } from "./secretFile.ts"

/** Written beside, mode 0600, and renamed when it is complete. `work` gets the open file. */
export const inPlace = <A, E>(path: string, work: (descriptor: number) => Effect.Effect<A, E>) => {
  const draft = `${path}.partial`
  return Effect.acquireUseRelease(
    // Only to fail early: the rename would replace what came meanwhile.
    Effect.andThen(
      absent(path),
      fileWork(draft, () => fs.openSync(draft, "wx", 0o600))
    ),
    (file) =>
      Effect.tap(work(file), () =>
        fileWork(path, () => {
          fs.fsyncSync(file)
          fs.renameSync(draft, path)
          syncFolder(dirname(path))
        })
      ),
    (file) =>
      Effect.sync(() => {
        fs.closeSync(file)
        fs.rmSync(draft, { force: true })
      })
  )
}

const absent = (path: string) =>
  Effect.suspend(() =>
    fs.existsSync(path) ? Effect.fail(fileError(path, "written", { code: "EEXIST" })) : Effect.void
  )

export const contents = (path: string) =>
  Stream.fromAsyncIterable<Uint8Array, ReturnType<typeof fileError>>(
    { [Symbol.asyncIterator]: () => fs.createReadStream(path)[Symbol.asyncIterator]() },
    (error) => fileError(path, "read", error)
  )
