import { Effect } from "effect"
import * as fs from "node:fs"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"
import { fileWork } from "./support/secretFile.ts"
import { inPlace } from "./support/wholeFile.ts"

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
