import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import { next } from "./support/print.ts"

/** Every command migrates first; this one says what ran. */
export const migrate = command("migrate", {
  description: "Bring the database's schema up to date",
  flags: {},
  run: () => using(({ migrated }) => Effect.succeed({ migrated })),
  print: ({ migrated }) => [
    ...(migrated.length === 0 ? ["The schema is up to date."] : migrated.map((file) => `Ran ${file}`)),
    next("doctor")
  ]
})
