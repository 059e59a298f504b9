import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listBridges = command("list-bridges", {
  description: "List the Bridges of a project",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ bridges }) => bridges.list(project)),
  print: (bridges) => [
    ...table(
      bridges,
      ["bridge_id", "status", "enrolled_at", "token_expires_at", "revoked_at", "device_id", "display_name"],
      "The project has no Bridges."
    ),
    next("show-bridge --project ID --bridge BRIDGE_ID")
  ]
})
