import { Effect } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const approveAccountReference = command("approve-account-reference", {
  description: "Let Bridges of a project name an account of a provider; never a credential",
  flags: {
    project: Flags.project,
    reference: Flags.reference("reference"),
    label: Flags.label("label", 120, "What people call it").pipe(Flag.optional)
  },
  run: ({ label, project, reference }) =>
    using(({ projects }) =>
      Effect.map(projects.approveReference(project, reference, label), (approved) => ({
        project_id: project,
        reference,
        label: approved.label
      }))
    ),
  print: (approved) => [
    ...facts(approved),
    next(
      `create-bridge-enrollment-credential --project ${approved.project_id} --account-reference ${quoted(approved.reference)} --out FILE`
    )
  ]
})

const quoted = (word: string) => (/^[\w.:@/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
