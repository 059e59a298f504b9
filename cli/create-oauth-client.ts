import { Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

const flags = {
  name: Flags.label("name", 64, "What people read on the consent page"),
  redirectUris: Flags.redirectUri.pipe(
    Flag.between(1, 10),
    Flag.withDescription("Where answers go, compared character by character; a loopback one without port takes any")
  ),
  type: Flags.applicationType.pipe(Flag.optional),
  scopes: Flags.scope("The most it may be granted (all but mobile:devices); repeatable")
}

export const createOauthClient = command("create-oauth-client", {
  description: "Register a public OAuth client",
  flags,
  run: ({ name, redirectUris, scopes, type }) =>
    using(({ oauthClients }) =>
      oauthClients.create({
        name,
        redirect_uris: redirectUris,
        application_type: Option.getOrUndefined(type),
        scopes
      })
    ),
  print: (created) => [...facts(created), next("list-oauth-clients")]
})
