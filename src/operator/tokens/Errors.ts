/** The refusals of operator tokens: of the commands that manage them, and of the requests that carry them. */
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...sharedTable,
  operator_token_not_found: [404, "There is no such operator token; see list-operator-tokens."],
  operator_command_not_found: [404, "There is no such command."],
  operator_command_is_local: [409, "This command runs only where the database is."]
} as const

export type OperatorRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse } = fromTable(table)
