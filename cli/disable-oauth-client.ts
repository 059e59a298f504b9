import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const disableOauthClient = command("disable-oauth-client", {
  description: "Disable an OAuth client for good, and end every grant that it has",
  flags: { client: Flags.oauthClient },
  run: ({ client }) =>
    using(({ oauthClients }) =>
      Effect.map(oauthClients.disable(client), (disabled) => ({ client_id: client, ...disabled }))
    ),
  print: (disabled) => [...facts(disabled), next("list-oauth-clients")]
})
