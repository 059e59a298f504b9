import { Flag } from "effect/cli"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listDevices = command("list-devices", {
  description: "List the phones of a project that receive notifications",
  flags: {
    project: Flags.project,
    limit: Flags.count("limit", 1000, "How many at most (100)").pipe(Flag.withDefault(100))
  },
  run: ({ limit, project }) => using(({ devices }) => devices.list(project, limit)),
  print: (devices) => [
    ...table(
      devices,
      ["device_id", "state", "state_reason", "environment", "topic", "token_key_id", "created_at", "last_seen_at"],
      "The project has no devices."
    ),
    next("revoke-device --device ID")
  ]
})
