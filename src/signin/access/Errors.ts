/** What Access refuses a caller, and what the operator's commands about project tokens refuse. */
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
  ...projectTable,
  project_disabled: [409, "The project is disabled; enable it first."],
  project_token_not_found: [404, "There is no such project token; see list-project-tokens."],
  /** A reader may not write, and mobile:devices belongs to OAuth clients. */
  scope_not_allowed: [409, "The role does not allow one of these scopes."]
} as const

export type ProjectTokenRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseOperator } = fromTable(operatorTable)
