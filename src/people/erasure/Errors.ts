/** Codes of the operator's commands that destroy. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...projectTable,
  memory_not_found: [404, "The project has no such memory entry."],
  task_not_found: [404, "The project has no such task."],
  document_not_found: [404, "The project has no such document; see list-documents."],
  subject_not_found: [404, "The project has no token with this label; see list-project-tokens."],
  project_not_disabled: [409, "The project is in use: run disable-project first."]
} as const

export type ErasureRefusal<Code extends keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse } = fromTable(table)
