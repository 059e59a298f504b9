import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listProjectTokens = command("list-project-tokens", {
  description: "List the tokens of a project; their secrets are only in their files",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projectTokens }) => projectTokens.list(project)),
  print: (tokens) => [
    ...table(
      tokens,
      ["token_id", "status", "role", "scopes", "expires_at", "last_used_at", "live_grants"],
      "The project has no project tokens."
    ),
    next("revoke-project-token --token ID")
  ]
})
