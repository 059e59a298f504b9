import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listBridgeEnrollmentCredentials = command("list-bridge-enrollment-credentials", {
  description: "List the bootstrap credentials of a project; their secrets are only in their files",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ credentials }) => credentials.list(project)),
  print: (credentials) => [
    ...table(
      credentials,
      ["credential_id", "status", "expires_at", "claimed_bridge_id", "reenroll_bridge_id", "account_references"],
      "The project has no bootstrap credentials."
    ),
    next("revoke-bridge-enrollment-credential --credential ID")
  ]
})
