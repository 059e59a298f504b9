/** A folder that is written whole or not at all. */
import { Effect, Exit } from "effect"
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { syncFolder } from "../../../src/platform/settings/WholeFile.ts"
import { FileError, fileWork } from "./SecretFiles.ts"

/**
 * Gives `work` a function that writes files below a draft, and moves them into `path` once `work` and then `record` have
 * succeeded. `path` must be new or empty; hidden files do not count, so that it may be a repository of git.
 */
export const writeFolder = <A, E, E2>(
  path: string,
  work: (write: (name: string, text: string) => ReturnType<typeof written>) => Effect.Effect<A, E>,
  record: Effect.Effect<void, E2>
) =>
  Effect.acquireUseRelease(
    Effect.andThen(
      empty(path),
      fileWork(path, () => {
        const isNew = !fs.existsSync(path)
        fs.mkdirSync(path, { recursive: true })
        return { isNew, draft: fs.mkdtempSync(join(path, ".export-")) }
      })
    ),
    ({ draft }) =>
      work((name, text) => written(join(draft, name), text)).pipe(
        Effect.tap(record),
        Effect.tap(() =>
          fileWork(path, () => {
            for (const name of fs.readdirSync(draft)) fs.renameSync(join(draft, name), join(path, name))
            syncFolder(path)
          })
        )
      ),
    ({ draft, isNew }, exit) =>
      Effect.sync(() => {
        fs.rmSync(draft, { recursive: true, force: true })
        if (isNew && Exit.isFailure(exit)) fs.rmSync(path, { recursive: true, force: true })
      })
  )

const empty = (path: string) =>
  Effect.flatMap(
    fileWork(path, () => fs.existsSync(path) && fs.readdirSync(path).some((name) => !name.startsWith("."))),
    (isFull) =>
      isFull
        ? Effect.fail(new FileError({ message: `${path} is not empty; choose a new or an empty folder.` }))
        : Effect.void
  )

const written = (path: string, text: string) =>
  fileWork(path, () => {
    fs.mkdirSync(dirname(path), { recursive: true })
    fs.writeFileSync(path, text, { flag: "wx", mode: 0o600 })
  })
