import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"

export const listAccountReferences = command("list-account-references", {
  description: "List the account references of a project",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.listReferences(project)),
  print: (references) => [
    ...table(
      references,
      ["reference", "label", "approved_at", "withdrawn_at"],
      "The project has no account references."
    ),
    next("approve-account-reference --project ID --reference REFERENCE")
  ]
})
