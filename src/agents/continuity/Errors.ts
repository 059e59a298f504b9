/** Error codes of the memory and task tools (spec 4.11, 7.4), and of the operator's export and import. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type Refusal, type RefusalOf } from "../../wire/Refusal.ts"
import { withoutStatus } from "./ToolErrors.ts"

const table = {
  ...sharedTable,
  ...withoutStatus({
    idempotency_conflict: "This idempotency_key belongs to a different request; choose another.",
    memory_not_found: "The project has no such memory entry.",
    /** `details.superseded_by`: the id of its successor; null if it was archived. */
    memory_already_superseded: "The entry was superseded or archived before; read it and supersede its successor.",
    /** The client must stop (spec 4.11). `details.field` if the id came from another parameter than `id`. */
    task_not_found: "The project has no such task. Stop: do not recreate it, migrate it or search other projects.",
    /** `details.open`: the ids of the unfinished dependencies. */
    task_dependencies_open: "The task waits for others that are not done or cancelled.",
    task_dependency_cycle: "The task would wait for itself.",
    /** See `furthest` in tasks/dependencies/Cycle.ts. */
    task_graph_too_large:
      "More than 2,000 tasks wait for this one, and it would wait for more than 2,000: too many to check for a cycle. Remove dependencies that no longer matter first.",
    /** `details`: `from`, `to`, and `allowed`, the statuses that `from` may change to. */
    task_transition_invalid: "The task cannot go from its status to that one.",
    /** An answer came for a task that is not blocked for a decision. */
    task_not_asking: "The task does not wait for a decision.",
    /** `details`: `assignee` and `claimed_by`, who hold it, and `since`. */
    task_claimed: "Somebody else is at work on the task; choose another, or take it over with a reason.",
    /** `details`: `current_version`, `status`, `assignee`. */
    stale_version: "The task has changed since you read it; read it again and decide anew.",
    receipt_exists:
      "This session has written its receipt for the task; nothing was changed. Send the update without one.",
    /** A cursor of another query, or a text that is not a cursor. */
    cursor_invalid: "The cursor does not belong to this query; start again without it.",
    /**
     * `details`: `limit`, its `value` (what is stored, running or was used in a minute) and its `maximum`; `retry_after` in
     * seconds if time mends it.
     */
    limit_exceeded: "The project has reached one of its limits; ask its operator to raise it.",
    /** The words asked for stand in too many entries to be ranked in a second. */
    search_too_broad: "The search took too long. Ask with fewer or rarer words, or narrow it by kind and tags.",
    /** `details`: `line` and `reason`, and `file` of a source that has several. */
    import_invalid: "The file is no export of a project; nothing was imported.",
    import_overtaken: "The project changed during the import; nothing was imported. Run it again."
  }),
  project_not_found: projectTable.project_not_found
} as const

export type ContinuityRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { codes, refuse } = fromTable(table)

/** The database did not answer: every operation of this wing can fail with it. */
export type Unavailable = Refusal<"bridge_persistence_error">
