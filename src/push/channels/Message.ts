/** What a channel is told: the kind, ids and a link into the console, and the title of the task if the operator wants it. */
import { type NotificationKind, notificationKinds, type Priority } from "../../wire/mobile/Notifications.ts"

export interface Message {
  readonly kind: NotificationKind
  readonly project_id: string
  /** The id of the task; null for a test. */
  readonly subject_id: string | null
  readonly version: number | null
  /** null unless the channel carries titles. */
  readonly title: string | null
  readonly url: string
  /** When it happened. */
  readonly at: Date
}

/** The kind in words. Channels have no language of their own. */
export const wordsOf = (kind: NotificationKind): string => words[kind as keyof typeof words] ?? kind

const words = {
  "task.blocked": "A task is blocked",
  "task.needs_decision": "A task needs a decision",
  "task.completed": "A task is done",
  "device.test": "A test of this channel"
}

export const priorityOf = (kind: NotificationKind): Priority => notificationKinds[kind].priority
