/** What an update makes of a task, whether it may, and who should hear of it. */
import { Effect } from "effect"
import type { KindName } from "../../wire/mobile/Notifications.ts"
import { withDetails } from "../../wire/Refusal.ts"
import type { Status, Task, TaskUpdate } from "./Shapes.ts"
import { refuse } from "../continuity/Errors.ts"

/** Where a task may go from each status; to stay is no move. */
const moves: Readonly<Record<Status, ReadonlyArray<Status>>> = {
  open: ["in_progress", "blocked", "done", "cancelled"],
  in_progress: ["open", "blocked", "done", "cancelled"],
  blocked: ["open", "in_progress", "done", "cancelled"],
  done: ["open"],
  cancelled: ["open"]
}

/** The task as the update leaves it; whether it may is asked afterwards. */
export const changed = (before: Task, asked: TaskUpdate, now: Date): Task => {
  const status = asked.status ?? before.status
  const released = status === "open" && before.status !== "open"
  const assignee = asked.assignee !== undefined ? asked.assignee : released ? null : before.assignee
  const claims = status === "in_progress" && (before.status !== "in_progress" || assignee !== before.assignee)
  const closed = status === "done" || status === "cancelled"
  const blocked = status === "blocked"
  return {
    ...before,
    title: asked.title ?? before.title,
    body: asked.body ?? before.body,
    status,
    priority: asked.priority ?? before.priority,
    tags: asked.tags === undefined ? before.tags : [...new Set(asked.tags)],
    assignee,
    claimed_at: claims ? now : status === "open" ? null : before.claimed_at,
    version: before.version + 1,
    blocked_reason: blocked ? (asked.blocked_reason ?? before.blocked_reason) : null,
    blocked_kind: blocked ? (asked.blocked_kind ?? before.blocked_kind ?? "other") : null,
    updated_at: now,
    closed_at: closed ? (before.closed_at ?? now) : null
  }
}

/** What a person away from the desk hears of the change, if anything. */
export const newsOf = (before: Task, after: Task): KindName | undefined => {
  const newlyBlocked = before.status !== "blocked" || before.blocked_kind !== after.blocked_kind
  if (after.status === "blocked" && newlyBlocked) {
    return after.blocked_kind === "decision" ? "task.needs_decision" : "task.blocked"
  }
  return after.status === "done" && before.status !== "done" ? "task.completed" : undefined
}

export const allowed = Effect.fnUntraced(function* (before: Task, after: Task, asked: TaskUpdate) {
  if (after.status !== before.status && !moves[before.status].includes(after.status)) {
    return yield* withDetails(refuse("task_transition_invalid"), {
      from: before.status,
      to: after.status,
      allowed: moves[before.status]
    })
  }
  const speaksOfBlock = asked.blocked_reason !== undefined || asked.blocked_kind !== undefined
  if (speaksOfBlock && after.status !== "blocked") {
    const field = asked.blocked_reason === undefined ? "blocked_kind" : "blocked_reason"
    const reason = "Only with status blocked"
    return yield* withDetails(refuse("invalid_request"), { field, reason }, `${field}: ${reason}.`)
  }
})
