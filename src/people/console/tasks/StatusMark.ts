/** The state of a task in a word or two. */
import type { Status } from "../../../agents/tasks/Shapes.ts"
import type { Html } from "../../../platform/html/Html.ts"
import { mark } from "../Parts.ts"

/** Without `ready`, an open task is only said to be open: it may wait for others. */
export const statusMark = (task: {
  readonly status: Status
  readonly ready?: boolean
  readonly blocked_kind?: string | null
}): Html => {
  switch (task.status) {
    case "open":
      if (task.ready === undefined) return mark("open")
      return task.ready ? mark("ready", "good") : mark("waits for other tasks")
    case "in_progress":
      return mark("in progress", "info")
    case "blocked":
      return task.blocked_kind === "decision" ? mark("waits for a decision", "warn") : mark("blocked", "warn")
    case "done":
      return mark("done")
    case "cancelled":
      return mark("cancelled")
  }
}
