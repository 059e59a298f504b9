import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { resolve } from "node:path"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

const flags = {
  project: Flags.project,
  repository: Flags.path("repository", "Folder of a local clone; read once"),
  label: Flags.label("label", 200, "What agents are told the repository is, such as acme/shop"),
  commit: Flags.label("commit", 64, "The full hash of the commit"),
  path: Flags.path("path", "The file in the repository, such as docs/guide.md"),
  title: Flags.label("title", 200, "What agents are told the document is (its path)").pipe(Flag.optional),
  bootstrap: Flag.Boolean("bootstrap").pipe(
    Flag.withDescription("List it first, as a document to start with"),
    Flag.withDefault(false)
  )
}

export const pinDocument = command("pin-document", {
  description: "Copy one file of one commit into the database, for the agents of a project to read",
  flags,
  run: ({ bootstrap, commit, label, path, project, repository, title }) =>
    using(({ documents }) =>
      Effect.map(
        documents.pin({
          project_id: project,
          directory: resolve(repository),
          repository: label,
          commit,
          path,
          title: Option.getOrElse(title, () => path),
          bootstrap
        }),
        (pinned) => ({ ...pinned, project_id: project })
      )
    ),
  print: (pinned) => [...facts(pinned), next(`list-documents --project ${pinned.project_id}`)]
})
