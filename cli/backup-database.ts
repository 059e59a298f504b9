import { Effect } from "effect"
import * as fs from "node:fs"
import { dirname } from "node:path"
import { command, using } from "./command.ts"
import * as Flags from "./flags.ts"
import { facts, next } from "./print.ts"
import { fileError, fileWork, syncFolder } from "./secretFile.ts"

export const backupDatabase = command("backup-database", {
  description: "Write the whole database into a new file, while the server runs or not",
  flags: { out: Flags.path("out", "The new file") },
  run: ({ out }) =>
    using(({ backup }) =>
      inPlace(out, (file) => backup.save((text) => fileWork(out, () => fs.writeFileSync(file, text)))).pipe(
        Effect.map((summary) => ({ file: out, ...summary }))
      )
    ),
  print: (saved) => [
    ...facts(saved),
    "Keep it as secret as the database, and keep the service's secrets with it: they are not in the file.",
    next(`restore-database --in ${saved.file}`, "into an empty database")
  ]
})

/** Written beside, mode 0600, and renamed when it is complete: the name stands for a whole backup or for nothing. */
const inPlace = <A, E>(path: string, work: (descriptor: number) => Effect.Effect<A, E>) => {
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
