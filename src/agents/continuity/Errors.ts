/** What the continuity tools refuse (spec 4.11, 7.4). As results of tools they carry no HTTP status; the operator's commands show them too. */
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...sharedTable,
  idempotency_conflict: [422, "This idempotency_key belongs to a different request; choose another."],
  memory_not_found: [404, "The project has no such memory entry."],
  memory_already_superseded: [409, "The entry was superseded or archived before; read it and supersede its successor."],
  /** The client must stop (spec 4.11). `details.field` where it was not the `id`. */
  task_not_found: [404, "The project has no such task. Stop: do not recreate it, migrate it or search other projects."],
  /** `details.open`: the ids of the unfinished dependencies. */
  task_dependencies_open: [409, "The task waits for others that are not done or cancelled."],
  task_dependency_cycle: [409, "The task would wait for itself."],
  /** `details`: `from`, `to`, and `allowed` from here. */
  task_transition_invalid: [409, "The task cannot go from its status to that one."],
  /** `details.current_version`. */
  stale_version: [409, "The task has changed since you read it; read it again and decide anew."],
  receipt_exists: [
    409,
    "This session has written its receipt for the task; nothing was changed. Send the update without one."
  ],
  /** A cursor of another query, or none of ours. */
  cursor_invalid: [400, "The cursor does not belong to this query; start again without it."],
  project_not_found: [404, "There is no such project; see list-projects."],
  /** `details.line`. */
  import_invalid: [400, "The file is no export of a project; nothing was imported."]
} as const

export type ContinuityRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { codes, refuse } = fromTable(table)
