import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listDocuments = command("list-documents", {
  description: "List the pinned documents of a project, those to start with first",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ documents }) => documents.list(project)),
  print: (documents) => [
    ...table(
      documents,
      ["document_id", "repository", "commit", "path", "title", "size_bytes", "bootstrap", "pinned_at"],
      "The project has no pinned documents."
    ),
    next("unpin-document --document ID")
  ]
})
