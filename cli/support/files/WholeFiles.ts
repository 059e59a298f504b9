/** Output files that are either complete or absent, and input files that are read as streams. */
import { Effect, Stream } from "effect"
import * as fs from "node:fs"
import { dirname } from "node:path"
import { done, expect } from "../../../src/platform/metrics/Progress.ts"
import { syncFolder } from "../../../src/platform/settings/WholeFile.ts"
import { fileError, fileWork } from "./SecretFiles.ts"

/** Gives `work` the descriptor of a draft (mode 0600) beside `path`, and renames the draft once `work` has succeeded. */
export const writeWhole = <A, E>(path: string, work: (descriptor: number) => Effect.Effect<A, E>) => {
  const draft = `${path}.partial`
  return Effect.acquireUseRelease(
    // Fails early rather than after a long export; the rename would silently replace an existing file.
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

/** Adds what reading the file so many times will take to the expected progress. */
export const expectFile = (path: string, times = 1) =>
  expect(Effect.try({ try: () => fs.statSync(path).size * times, catch: (error) => fileError(path, "read", error) }))

export const watchedContents = (path: string) =>
  Stream.unwrap(
    Effect.as(
      expectFile(path),
      Stream.tap(contents(path), ({ length }) => done(length))
    )
  )
