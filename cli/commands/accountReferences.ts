/** Account references: names of provider accounts that an operator approves for the Bridges of a project (spec 2.2). */
import { Effect } from "effect"
import { Flag } from "effect/cli"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const approveAccountReference = command("approve-account-reference", {
  description: "Allow the Bridges of a project to name a provider account (a name only, never its credential)",
  remote: "write",
  flags: {
    project: Flags.project,
    reference: Flags.newReference,
    label: Flags.label("label", 120, "Display name").pipe(Flag.optional)
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
      `create-bridge-enrollment-credential --project ${approved.project_id} --account-reference ${shellWord(approved.reference)} --out FILE`
    )
  ]
})

const listAccountReferences = list("list-account-references", {
  description: "List the account references of a project",
  flags: { project: Flags.project },
  after: Flags.reference("after"),
  key: "reference",
  page: ({ projects }, { project }, page) => projects.listReferences(project, page),
  columns: ["reference", "label", "approved_at", "withdrawn_at"],
  none: "The project has no account references.",
  next: (_, { project }) => `approve-account-reference --project ${project} --reference REFERENCE`
})

const withdrawAccountReference = irreversible("withdraw-account-reference", {
  description: "Undo an approval and revoke the unused credentials that carry the reference",
  remote: "write",
  flags: { project: Flags.project, reference: Flags.reference("reference") },
  losses: ({ project, reference }) => using(({ losses }) => losses.reference(project, reference)),
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
    next(`list-bridges --project ${withdrawn.project_id}`, "enrolled Bridges stay enrolled")
  ]
})

export const accountReferences = [approveAccountReference, listAccountReferences, withdrawAccountReference]
