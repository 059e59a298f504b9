/** Project tokens: the static bearer tokens of a project, which also authorize sign-ins on the consent page (spec 4.10, 5). */
import { Duration, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import type { Issued, Minted, Secret } from "../../src/signin/access/ProjectTokens.ts"
import { command, using } from "../support/frames/command.ts"
import { asMinted, mintHere } from "../support/remote/minted.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"
import { withSecretFiles } from "../support/files/SecretFiles.ts"

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
  out: Flags.path("out", "New file for the token (needed, unless --minted)").pipe(Flag.optional),
  minted: Flags.minted.pipe(Flag.optional)
}

const mintToken = Effect.map(mintHere("spt"), ({ hash, id, secret }) => ({
  token_id: id,
  token: secret,
  token_hash: hash
}))

const issueToFile = Effect.fnUntraced(function* <E, A, E2>(
  out: Option.Option<string>,
  mint: Effect.Effect<Secret, E>,
  issue: (minted: Secret) => Effect.Effect<A, E2>
) {
  const minted = yield* mint
  // `refuse` has seen to the file.
  const file = Option.getOrThrow(out)
  const issued = yield* withSecretFiles([{ path: file, secret: minted.token }], issue(minted))
  return { ...issued, file }
})

const createProjectToken = command("create-project-token", {
  description: "Write a token of a project to a file that only you can read",
  flags: createFlags,
  refuse: ({ minted, out }) => (Option.isSome(out) === Option.isSome(minted) ? "Pass --out FILE." : undefined),
  remote: "write",
  run: ({ label, minted, noConsole, out, project, role, scopes, ttl }) =>
    using(({ persistently, projectTokens }) => {
      const order = {
        project_id: project,
        label: Option.getOrUndefined(label),
        role,
        scopes,
        ttl,
        opens_console: !noConsole
      }
      const issue = (secret: Minted) => persistently(projectTokens.issue(order, secret))
      return Option.match(minted, {
        onNone: () => issueToFile(out, projectTokens.mint, issue),
        onSome: ({ hash, id }) => issue({ token_id: id, token_hash: hash })
      })
    }),
  remotely: ({ out }, call) =>
    issueToFile(out, mintToken, ({ token_hash, token_id }) =>
      Effect.map(call({ minted: asMinted(token_id, token_hash) }), (answer) => answer as Issued)
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

const revokeProjectToken = irreversible("revoke-project-token", {
  description: "Revoke a project token and every OAuth grant made with it",
  remote: "write",
  flags: { token: Flags.id("token", "Id of the token; see list-project-tokens") },
  losses: ({ token }) => using(({ losses }) => losses.projectToken(token)),
  run: ({ token }) =>
    using(({ projectTokens }) =>
      Effect.map(projectTokens.revoke(token), (revoked) => ({ token_id: token, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next(`list-project-tokens --project ${revoked.project_id}`)]
})

export const projectTokens = [createProjectToken, listProjectTokens, revokeProjectToken]
