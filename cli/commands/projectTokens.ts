/** Project tokens: the static bearer tokens of a project, which also authorize sign-ins on the consent page (spec 4.10, 5). */
import { Duration, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/list.ts"
import { facts, next } from "../support/Print.ts"
import { withSecretFiles } from "../support/SecretFiles.ts"

const createFlags = {
  project: Flags.project,
  label: Flags.label("label", 80, "Name of the token for people, such as the person or agent that holds it").pipe(
    Flag.optional
  ),
  role: Flags.role,
  scopes: Flags.scope("Restrict the token to this scope of its role; repeatable"),
  ttl: Flags.lifetimeOrNever("Lifetime of the token, or never: until it is revoked (default: 90d)").pipe(
    Flag.withDefault(Option.some(Duration.days(90)))
  ),
  noConsole: Flag.Boolean("no-console").pipe(
    Flag.withDescription("For agents only: the token opens neither the console nor the consent page"),
    Flag.withDefault(false)
  ),
  out: Flags.path("out", "New file for the token")
}

const createProjectToken = command("create-project-token", {
  description: "Write a token of a project to a file that only you can read",
  flags: createFlags,
  run: ({ label, noConsole, out, project, role, scopes, ttl }) =>
    using(({ persistently, projectTokens }) =>
      Effect.gen(function* () {
        const minted = yield* projectTokens.mint
        const order = {
          project_id: project,
          label: Option.getOrUndefined(label),
          role,
          scopes,
          ttl,
          opens_console: !noConsole
        }
        const issued = yield* withSecretFiles(
          [{ path: out, secret: minted.token }],
          persistently(projectTokens.issue(order, minted))
        )
        return { ...issued, file: out }
      })
    ),
  print: (issued) => [...facts(issued), next(`list-project-tokens --project ${issued.project_id}`)]
})

const listProjectTokens = list("list-project-tokens", {
  description: "List the tokens of a project; the secrets exist only in their files",
  flags: { project: Flags.project },
  recorded: "project_token.listed",
  after: Flags.uuid("after", ""),
  key: "token_id",
  page: ({ projectTokens }, { project }, page) => projectTokens.list(project, page),
  columns: ["token_id", "label", "status", "role", "scopes", "expires_at", "last_used_at", "live_grants"],
  none: "The project has no project tokens.",
  next: ({ length }, { project }) =>
    length === 0
      ? `create-project-token --project ${project} --role contributor --out FILE`
      : "revoke-project-token --token ID"
})

const revokeProjectToken = command("revoke-project-token", {
  description: "Revoke a project token and every OAuth grant made with it",
  flags: { token: Flags.id("token", "Id of the token; see list-project-tokens") },
  run: ({ token }) =>
    using(({ projectTokens }) =>
      Effect.map(projectTokens.revoke(token), (revoked) => ({ token_id: token, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next(`list-project-tokens --project ${revoked.project_id}`)]
})

export const projectTokens = [createProjectToken, listProjectTokens, revokeProjectToken]
