import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const revokeProjectToken = command("revoke-project-token", {
  description: "Revoke a project token, and with it every OAuth grant that it gave",
  flags: { token: Flags.uuid("token", "Id of the token; see list-project-tokens") },
  run: ({ token }) =>
    using(({ projectTokens }) =>
      Effect.map(projectTokens.revoke(token), (revoked) => ({ token_id: token, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next(`list-project-tokens --project ${revoked.project_id}`)]
})
