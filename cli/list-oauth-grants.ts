import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listOauthGrants = command("list-oauth-grants", {
  description: "List what people have allowed OAuth clients in a project",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ oauthGrants }) => oauthGrants.list(project)),
  print: (grants) => [
    ...table(
      grants,
      ["grant_id", "status", "client_name", "scopes", "project_token_id", "expires_at", "last_used_at", "end_reason"],
      "The project has no OAuth grants."
    ),
    next("revoke-oauth-grant --grant ID")
  ]
})
