import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const revokeOauthGrant = command("revoke-oauth-grant", {
  description: "End an OAuth grant and every token of it",
  flags: { grant: Flags.uuid("grant", "Id of the grant; see list-oauth-grants") },
  run: ({ grant }) =>
    using(({ oauthGrants }) => Effect.map(oauthGrants.revoke(grant), (revoked) => ({ grant_id: grant, ...revoked }))),
  print: (revoked) => [...facts(revoked), next(`list-oauth-grants --project ${revoked.project_id}`)]
})
