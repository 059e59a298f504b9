/** OAuth clients, and the grants that people gave them. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const createFlags = {
  name: Flags.label("name", 64, "Name shown on the consent page"),
  redirectUris: Flags.redirectUri.pipe(
    Flag.between(1, 10),
    Flag.withDescription("Redirect URI, compared character by character (a loopback URI matches any port); repeatable")
  ),
  type: Flags.applicationType.pipe(Flag.optional),
  scopes: Flags.scope("Scope that the client may be granted (default: all but mobile:devices); repeatable"),
  id: Flags.newOauthClient
}

const createOauthClient = command("create-oauth-client", {
  description: "Register a public OAuth client",
  remote: "write",
  flags: createFlags,
  run: ({ id, name, redirectUris, scopes, type }) =>
    using(({ oauthClients, persistently }) =>
      persistently(
        oauthClients.create({
          client_id: id,
          name,
          redirect_uris: redirectUris,
          application_type: Option.getOrUndefined(type),
          scopes
        })
      )
    ),
  print: (created) => [...facts(created), next("list-oauth-clients")]
})

const listOauthClients = list("list-oauth-clients", {
  description: "List OAuth clients: registered by you, self-registered, or known by their metadata document",
  flags: {},
  recorded: "oauth_client.listed",
  after: Flags.oauthClient("after", ""),
  key: "client_id",
  page: ({ oauthClients }, _, page) => oauthClients.list(page),
  columns: ["client_id", "kind", "name", "redirect_uris", "live_grants", "disabled_at"],
  none: "There are no OAuth clients.",
  next: ({ length }) =>
    length === 0 ? "create-oauth-client --name NAME --redirect-uri URI" : "disable-oauth-client --client ID"
})

const disableOauthClient = irreversible("disable-oauth-client", {
  description: "Disable an OAuth client permanently and end all its grants",
  remote: "write",
  flags: {
    client: Flags.oauthClient(
      "client",
      "Id of the client (see list-oauth-clients), or the address of a metadata document to block in advance"
    )
  },
  losses: ({ client }) => using(({ losses }) => losses.client(client)),
  run: ({ client }) =>
    using(({ oauthClients }) =>
      Effect.map(oauthClients.disable(client), (disabled) => ({ client_id: client, ...disabled }))
    ),
  print: (disabled) => [...facts(disabled), next("list-oauth-clients")]
})

const listOauthGrants = list("list-oauth-grants", {
  description: "List the grants that people gave OAuth clients in a project",
  flags: { project: Flags.project },
  recorded: "oauth_grant.listed",
  after: Flags.uuid("after", ""),
  key: "grant_id",
  page: ({ oauthGrants }, { project }, page) => oauthGrants.list(project, page),
  columns: [
    "grant_id",
    "status",
    "client_name",
    "label",
    "scopes",
    "project_token_id",
    "expires_at",
    "last_used_at",
    "end_reason"
  ],
  none: "The project has no OAuth grants.",
  next: ({ length }, { project }) =>
    length === 0
      ? `create-project-token --project ${project} --role contributor --out FILE`
      : "revoke-oauth-grant --grant ID"
})

const revokeOauthGrant = irreversible("revoke-oauth-grant", {
  description: "Revoke an OAuth grant and all its tokens",
  remote: "write",
  flags: { grant: Flags.id("grant", "Id of the grant; see list-oauth-grants") },
  losses: ({ grant }) => using(({ losses }) => losses.grant(grant)),
  run: ({ grant }) =>
    using(({ oauthGrants }) => Effect.map(oauthGrants.revoke(grant), (revoked) => ({ grant_id: grant, ...revoked }))),
  print: (revoked) => [...facts(revoked), next(`list-oauth-grants --project ${revoked.project_id}`)]
})

export const oauth = [createOauthClient, listOauthClients, disableOauthClient, listOauthGrants, revokeOauthGrant]
