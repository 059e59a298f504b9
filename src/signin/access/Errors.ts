/** The error codes of `Access`, and of the operator's commands for project tokens. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  unauthorized: sharedTable.unauthorized,
  insufficient_scope: sharedTable.insufficient_scope,
  bridge_persistence_error: sharedTable.bridge_persistence_error
} as const

export type AccessRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse, refusals } = fromTable(table)

const operatorTable = {
  ...sharedTable,
  project_not_found: projectTable.project_not_found,
  project_disabled: [409, "The project is disabled; enable it first."],
  project_token_not_found: [404, "There is no such project token; see list-project-tokens."],
  /** A reader cannot write, and no project token has `mobile:devices`. */
  scope_not_allowed: [409, "The role does not allow one of these scopes."]
} as const

export type ProjectTokenRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseOperator } = fromTable(operatorTable)
