/** Operator tokens: for commands from elsewhere. They are made and revoked only where the database is. */
import { Duration, Effect } from "effect"
import { Flag } from "effect/cli"
import { operatorScopes } from "../../src/operator/tokens/Scopes.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"
import { withSecretFiles } from "../support/files/SecretFiles.ts"

const longest = Duration.days(30)

const createOperatorToken = command("create-operator-token", {
  description: "Write a token for commands from elsewhere to a file that only you can read",
  flags: {
    label: Flags.label("label", 80, "Who holds the token; audit events name them so"),
    scope: Flag.Literals("scope", operatorScopes).pipe(
      Flag.withMetavar("operator:read|operator:write"),
      Flag.withDescription("operator:read can only look, operator:write can also change")
    ),
    ttl: Flags.lifetime("Lifetime of the token, at most 30d (default: 7d)").pipe(Flag.withDefault(Duration.days(7))),
    out: Flags.path("out", "New file for the token")
  },
  refuse: ({ ttl }) =>
    Duration.isGreaterThan(ttl, longest) ? "--ttl: an operator token lives for 30d at most." : undefined,
  run: ({ label, out, scope, ttl }) =>
    using(({ baseUrl, operatorTokens, persistently }) =>
      Effect.gen(function* () {
        const minted = yield* operatorTokens.mint
        const scopes = scope === "operator:read" ? [scope] : operatorScopes
        const issued = yield* withSecretFiles(
          [{ path: out, secret: minted.token }],
          persistently(operatorTokens.issue({ label, scopes, ttl }, minted))
        )
        return { ...issued, file: out, base_url: baseUrl }
      })
    ),
  print: ({ base_url, ...issued }) => [
    ...facts(issued),
    next(
      `set-profile --name NAME --url ${base_url} --token-file FILE`,
      "on the machine of its holder, who keeps the file"
    )
  ]
})

const listOperatorTokens = list("list-operator-tokens", {
  description: "List the tokens for commands from elsewhere; the secrets exist only in their files",
  flags: {},
  remote: false,
  recorded: "operator_token.listed",
  after: Flags.uuid("after", ""),
  key: "token_id",
  page: ({ operatorTokens }, _, page) => operatorTokens.list(page),
  columns: ["token_id", "label", "status", "scopes", "created_at", "expires_at", "last_used_at"],
  none: "There are no operator tokens.",
  next: ({ length }) =>
    length === 0
      ? "create-operator-token --label NAME --scope operator:read --out FILE"
      : "revoke-operator-token --operator-token ID"
})

const revokeOperatorToken = irreversible("revoke-operator-token", {
  description: "Revoke a token for commands from elsewhere, at once",
  flags: { token: Flags.uuid("operator-token", "Id of the token; see list-operator-tokens") },
  losses: ({ token }) => using(({ losses }) => losses.operatorToken(token)),
  run: ({ token }) =>
    using(({ operatorTokens }) =>
      Effect.map(operatorTokens.revoke(token), (revoked) => ({ token_id: token, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next("list-operator-tokens")]
})

export const operatorTokens = [createOperatorToken, listOperatorTokens, revokeOperatorToken]
