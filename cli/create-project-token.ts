import { Effect } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"
import { withSecretFiles } from "./support/secretFile.ts"

const flags = {
  project: Flags.project,
  role: Flags.role,
  scopes: Flags.scope("Less than the role allows; repeatable"),
  ttl: Flags.lifetime("How long it is valid (until it is revoked)").pipe(Flag.optional),
  out: Flags.path("out", "The new file for the token")
}

export const createProjectToken = command("create-project-token", {
  description: "Write a token of a project into a file that only you can read",
  flags,
  run: ({ out, project, role, scopes, ttl }) =>
    using(({ persistently, projectTokens }) =>
      Effect.gen(function* () {
        const minted = yield* projectTokens.mint
        const issued = yield* withSecretFiles(
          [{ path: out, secret: minted.token }],
          persistently(projectTokens.issue({ project_id: project, role, scopes, ttl }, minted))
        )
        return { ...issued, file: out }
      })
    ),
  print: (issued) => [...facts(issued), next(`list-project-tokens --project ${issued.project_id}`)]
})
