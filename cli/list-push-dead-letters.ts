import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"
import { Flag } from "effect/cli"

export const listPushDeadLetters = command("list-push-dead-letters", {
  description: "List notifications that were given up, newest first",
  flags: { limit: Flags.count("limit", 1000, "How many at most (100)").pipe(Flag.withDefault(100)) },
  run: ({ limit }) => using(({ pushAdmin }) => pushAdmin.listDead(limit)),
  print: (letters) => [
    ...table(
      letters,
      ["delivery_id", "device_id", "kind", "attempts", "last_status", "last_reason", "settled_at", "expires_at"],
      "Nothing was given up."
    ),
    next("retry-push-dead-letters")
  ]
})
