/** The error codes of the operator's commands for console sessions. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  bridge_persistence_error: sharedTable.bridge_persistence_error,
  project_not_found: projectTable.project_not_found,
  console_off: [409, "The console is switched off: SERVICE_CONSOLE is off."],
  console_session_not_found: [404, "There is no such console session; see list-console-sessions."]
} as const

export type SessionRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse } = fromTable(table)
