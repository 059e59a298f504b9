/** The refusals of the operator's commands for projects and account references. */
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

export const projectTable = {
  ...sharedTable,
  project_not_found: [404, "There is no such project; see list-projects."],
  project_deletion_begun: [409, "The project is being deleted: parts of it are gone."],
  account_reference_not_approved: [409, "The project has not approved this account reference; approve it first."],
  account_reference_not_found: [404, "The project has no such approved account reference."]
} as const

export type ProjectRefusal<Code extends keyof typeof projectTable = keyof typeof projectTable> = RefusalOf<
  typeof projectTable,
  Code
>
export const { refuse, refusals } = fromTable(projectTable)
