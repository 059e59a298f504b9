import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const withdrawAccountReference = command("withdraw-account-reference", {
  description: "Undo an approval, and revoke the unused credentials that carry the reference",
  flags: { project: Flags.project, reference: Flags.reference("reference") },
  run: ({ project, reference }) =>
    using(({ projects }) =>
      Effect.map(projects.withdrawReference(project, reference), (revoked_credentials) => ({
        project_id: project,
        reference,
        revoked_credentials
      }))
    ),
  print: (withdrawn) => [
    ...facts(withdrawn),
    next(`list-bridges --project ${withdrawn.project_id}`, "Bridges that are enrolled stay")
  ]
})
