/** An update as a pure function: the new task, whether the change is allowed, and which notification it causes. */
import { Effect } from "effect"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { NotificationKind } from "../../wire/mobile/Notifications.ts"
import { withDetails } from "../../wire/Refusal.ts"
import type { Status, Task, TaskUpdate } from "./Shapes.ts"
import { refuse } from "../continuity/Errors.ts"

/** The statuses that a task may change to. An update that keeps the status is always allowed. */
const transitions: Readonly<Record<Status, ReadonlyArray<Status>>> = {
  open: ["in_progress", "blocked", "done", "cancelled"],
  in_progress: ["open", "blocked", "done", "cancelled"],
  blocked: ["open", "in_progress", "done", "cancelled"],
  done: ["open"],
  cancelled: ["open"]
}

export const isAllowed = (from: Status, to: Status) => from === to || transitions[from].includes(to)

/** The task after the update. `checkChange` decides whether the update is allowed. */
export const changed = (before: Task, update: TaskUpdate, actor: Actor, now: Date): Task => {
  const status = update.status ?? before.status
  const reopened = status === "open" && before.status !== "open"
  const assignee = update.assignee !== undefined ? update.assignee : reopened ? null : before.assignee
  const claims = status === "in_progress" && (before.status !== "in_progress" || assignee !== before.assignee)
  const closed = status === "done" || status === "cancelled"
  const blocked = status === "blocked"
  const blocked_kind = blocked ? (update.blocked_kind ?? before.blocked_kind ?? "other") : null
  const asks = blocked_kind === "decision"
  const asked = before.blocked_kind === "decision"
  const askedAnew = !asked || update.blocked_reason !== undefined || update.choices !== undefined
  return {
    ...before,
    title: update.title ?? before.title,
    body: update.body ?? before.body,
    status,
    priority: update.priority ?? before.priority,
    tags: update.tags === undefined ? before.tags : [...new Set(update.tags)],
    assignee,
    claimed_at: claims ? now : status === "open" ? null : before.claimed_at,
    claimed_by: claims ? (update.status === undefined ? null : actorName(actor)) : holderOf(before, status),
    version: before.version + 1,
    blocked_reason: blocked ? (update.blocked_reason ?? before.blocked_reason) : null,
    blocked_kind,
    choices: asks ? (update.choices ?? before.choices ?? null) : null,
    asked_by: asks ? (askedAnew ? actorName(actor) : (before.asked_by ?? null)) : null,
    answer: update.receipt === undefined ? (before.answer ?? null) : null,
    updated_by: actorName(actor),
    updated_at: now,
    closed_at: closed ? (before.closed_at ?? now) : null
  }
}

const holderOf = (before: Task, status: Status) => (status === "open" ? null : (before.claimed_by ?? null))

/** Whether somebody has claimed the task and not given it up. */
export const isAtWork = ({ assignee, claimed_by, status }: Task) =>
  status === "in_progress" && (assignee !== null || claimed_by != null)

/** The credential and the name together hold a task. One that was handed over by name only waits for that name. */
export const holds = ({ assignee, claimed_by }: Task, actor: Actor, name: string | null) =>
  (assignee === null || assignee === name) && (claimed_by == null || claimed_by === actorName(actor))

/** Whether an update would take the task from whoever is at work on it. Its holder may hand it to somebody else. */
export const takes = (before: Task, { assignee = before.assignee, status }: TaskUpdate, actor: Actor) => {
  const claims = status === "in_progress"
  if (!isAtWork(before) || !(claims || assignee !== before.assignee)) return false
  return !holds(before, actor, claims ? assignee : before.assignee)
}

/** The refusal of a claim, which says who holds the task. */
export const claimed = ({ assignee, claimed_at, claimed_by = null }: Task) =>
  withDetails(refuse("task_claimed"), { assignee, claimed_by, since: claimed_at })

/** The refusal of a change that was decided on another version. */
export const stale = ({ assignee, status, version }: Task) =>
  withDetails(refuse("stale_version"), { current_version: version, status, assignee })

/** The notification that the change causes, if any. */
export const notificationOf = (before: Task, after: Task): NotificationKind | undefined => {
  const newlyBlocked = before.status !== "blocked" || before.blocked_kind !== after.blocked_kind
  if (after.status === "blocked" && newlyBlocked) {
    return after.blocked_kind === "decision" ? "task.needs_decision" : "task.blocked"
  }
  return after.status === "done" && before.status !== "done" ? "task.completed" : undefined
}

/** Refuses a transition that the status does not allow, `blocked_*` without status blocked, and choices without a question. */
export const checkChange = Effect.fnUntraced(function* (before: Task, after: Task, update: TaskUpdate) {
  if (!isAllowed(before.status, after.status)) {
    return yield* withDetails(refuse("task_transition_invalid"), {
      from: before.status,
      to: after.status,
      allowed: transitions[before.status]
    })
  }
  const setsBlock = update.blocked_reason !== undefined || update.blocked_kind !== undefined
  if (setsBlock && after.status !== "blocked") {
    const field = update.blocked_reason === undefined ? "blocked_kind" : "blocked_reason"
    const reason = "Only with status blocked"
    return yield* withDetails(refuse("invalid_request"), { field, reason }, `${field}: ${reason}.`)
  }
  if (update.choices !== undefined && after.blocked_kind !== "decision") {
    const [field, reason] = ["choices", "Only with status blocked and blocked_kind decision"]
    return yield* withDetails(refuse("invalid_request"), { field, reason }, `${field}: ${reason}.`)
  }
})
