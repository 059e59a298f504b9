import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"
import { contents } from "./support/wholeFile.ts"

export const restoreDatabase = command("restore-database", {
  description: "Fill an empty database from a backup, all or nothing",
  flags: { in: Flags.path("in", "A file that backup-database wrote") },
  run: ({ in: path }) => using(({ backup }) => backup.restore(contents(path))),
  print: (restored) => [...facts(restored), next("doctor")]
})
