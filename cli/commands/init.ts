/** The first project in one command: with a credential for a Bridge, and a token for an agent. */
import { Data, Duration, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { calledAs } from "../../src/platform/process/CalledAs.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts } from "../support/terminal/Print.ts"
import { fileWork, withSecretFiles } from "../support/files/SecretFiles.ts"

class NameTaken extends Data.TaggedError("NameTaken")<{ readonly message: string }> {}

const initFlags = {
  name: Flags.label("name", 120, "Name of the project (default: First project)").pipe(
    Flag.withDefault("First project")
  ),
  reference: Flags.newReference.pipe(
    Flag.withDescription("Provider account that its Bridges may name (default: local:me)"),
    Flag.withDefault("local:me")
  ),
  dir: Flags.path("dir", "Folder for the two files (default: one that is called like the project)").pipe(Flag.optional)
}

export const init = command("init", {
  description: "Set up a project, with a credential for a first Bridge and a token for a first agent; safe to repeat",
  flags: initFlags,
  run: ({ dir: given, name, reference }) =>
    using(({ baseUrl, contents, credentials, persistently, projects, projectTokens }) =>
      Effect.gen(function* () {
        const made: Array<string> = []
        const named = (yield* contents.projectsNamed(name)).filter((project) => project.name === name)
        if (named.length > 1)
          return yield* new NameTaken({ message: "More than one project has this name: pass another --name." })
        const project_id = named[0]?.id ?? (yield* projects.create(name)).project_id
        if (named.length === 0) made.push("project")
        yield* projects.approveReference(project_id, reference, Option.none())

        const dir = Option.getOrElse(given, () => folderOf(name))
        yield* fileWork(dir, () => mkdirSync(dir, { recursive: true, mode: 0o700 }))
        const [credential_file, token_file] = [join(dir, "credential"), join(dir, "agent.token")]
        if (!existsSync(credential_file)) {
          const minted = yield* credentials.mint
          const order = {
            project_id,
            account_references: [reference],
            ttl: Duration.days(1),
            reenroll_bridge_id: undefined
          }
          yield* withSecretFiles(
            [{ path: credential_file, secret: minted.credential }],
            persistently(credentials.issue(order, [minted]))
          )
          made.push("credential")
        }
        if (!existsSync(token_file)) {
          const minted = yield* projectTokens.mint
          const order = {
            project_id,
            label: "first agent",
            role: "contributor" as const,
            scopes: [],
            ttl: Option.some(Duration.days(90)),
            opens_console: true
          }
          yield* withSecretFiles(
            [{ path: token_file, secret: minted.token }],
            persistently(projectTokens.issue(order, minted))
          )
          made.push("token")
        }
        return { project_id, name, reference, base_url: baseUrl, credential_file, token_file, made }
      })
    ),
  print: ({ made, ...set }) => [
    ...facts(set),
    ...(["project", "credential", "token"].every((one) => made.includes(one))
      ? ["The credential is good for one Bridge within a day, the token for 90 days."]
      : [
          `Made now: ${made.join(", ") || "nothing"}. What was there is kept; for another credential or token remove its file.`
        ]),
    "",
    "Enroll a Bridge:",
    `  ${calledAs("bridge")} enroll --base-url ${set.base_url} --project ${set.project_id} --bridge-id first-bridge --credential-file ${shellWord(set.credential_file)}`,
    "Connect an agent in its folder, and start it there:",
    `  export TOKEN=$(cat ${shellWord(set.token_file)})`,
    `  ${calledAs("bridge-service")} connect claude-code --url ${set.base_url} --token-env TOKEN`,
    `Next: ${calledAs("service-admin")} open-console   # see what they do`
  ]
})

const folderOf = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "-")
