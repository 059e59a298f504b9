import { command, using } from "./support/command.ts"
import { next, table } from "./support/print.ts"

export const listOauthClients = command("list-oauth-clients", {
  description: "List OAuth clients: registered by you, by themselves, or known by their document",
  flags: {},
  run: () => using(({ oauthClients }) => oauthClients.list),
  print: (clients) => [
    ...table(
      clients,
      ["client_id", "kind", "name", "redirect_uris", "live_grants", "disabled_at"],
      "There are no OAuth clients."
    ),
    next("disable-oauth-client --client ID")
  ]
})
