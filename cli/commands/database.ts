/** The database as a whole: migrate, back up, restore. */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next } from "../support/Print.ts"
import { fileWork } from "../support/SecretFiles.ts"
import { contents, writeWhole } from "../support/WholeFiles.ts"

/** Every command but doctor migrates first; this one reports the files that ran. */
const migrate = command("migrate", {
  description: "Bring the database's schema up to date",
  flags: {},
  run: () => using(({ migrated }) => Effect.succeed({ migrated })),
  print: ({ migrated }) => [
    ...(migrated.length === 0 ? ["The schema is up to date."] : migrated.map((file) => `Ran ${file}`)),
    next("doctor")
  ]
})

const backupDatabase = command("backup-database", {
  description: "Write the whole database to a new file; the server may be running",
  flags: { out: Flags.path("out", "New file to write") },
  run: ({ out }) =>
    using(({ backup, recorded }) =>
      writeWhole(out, (file) =>
        Effect.tap(
          backup.save((text) => fileWork(out, () => writeFileSync(file, text))),
          recorded("database.backed_up", null)
        )
      ).pipe(Effect.map((summary) => ({ file: out, ...summary })))
    ),
  print: (saved) => [
    ...facts(saved),
    "Protect this file like the database itself. It does not hold the service's secrets: keep a copy of them beside it.",
    next(`restore-database --in ${saved.file}`, "into an empty database")
  ]
})

const restoreDatabase = command("restore-database", {
  description: "Fill an empty database from a backup, all or nothing",
  flags: { in: Flags.path("in", "File written by backup-database") },
  run: ({ in: path }) =>
    using(({ backup, recorded }) =>
      Effect.tap(backup.restore(contents(path)), ({ created_at }) =>
        recorded("database.restored", null, { created_at: created_at.toISOString() })
      )
    ),
  print: (restored) => [...facts(restored), next("doctor")]
})

export const database = [migrate, backupDatabase, restoreDatabase]
