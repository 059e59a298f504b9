/**
 * The payloads: for APNs the key of a sentence that the app contains, and opaque ids. It contains no text from a project, a
 * task or a Bridge, because Apple, the lock screen and a mirroring watch (spec 4.13) see it.
 */
import type { Message } from "../channels/Message.ts"
import type { ClaimedDelivery } from "./LeaseStore.ts"
import { type NotificationKind, notificationKinds } from "../../wire/mobile/Notifications.ts"

export interface Notification {
  readonly delivery_id: string
  readonly kind: NotificationKind
  readonly project_id: string
  readonly reference: string | null
}

/**
 * The message for a browser, which only that browser can read (RFC 8291): the kind, opaque ids and a link into the
 * console. Its service worker has the words.
 */
export const browserPayload = (
  { delivery_id, kind, project_id, reference }: Notification,
  { origin }: { readonly origin: string }
): string => {
  const page = `${origin}/console/${project_id}`
  return JSON.stringify({ n: delivery_id, k: kind, r: reference, url: `${page}/${sectionOf(kind, reference)}` })
}

/** The message for a channel. */
export const messageOf = (
  notification: Notification & Pick<ClaimedDelivery, "created_at" | "task_title" | "task_version">,
  { origin }: { readonly origin: string }
): Message => {
  const { created_at, kind, project_id, reference, task_title, task_version } = notification
  const isTest = kind === "device.test"
  return {
    kind,
    project_id,
    subject_id: isTest ? null : reference,
    version: task_version,
    title: task_title,
    url: `${origin}/console/${project_id}/${isTest ? "phones" : `tasks/${reference}`}`,
    at: created_at
  }
}

const sectionOf = (kind: NotificationKind, reference: string | null) => {
  const { category } = notificationKinds[kind]
  if (category === "TASK") return `tasks/${reference}`
  if (category === "BRIDGE") return "bridges"
  return kind === "security.client_authorized" ? "agents" : "phones"
}

/** `thread` groups the notifications of one project on the phone without identifying the project. */
export const payload = ({ delivery_id, kind, reference }: Notification, thread: string): string => {
  const name = `N_${kind.toUpperCase().replace(".", "_")}`
  const { category, priority } = notificationKinds[kind]
  return JSON.stringify({
    aps: {
      alert: { "title-loc-key": `${name}_TITLE`, "loc-key": `${name}_BODY` },
      "thread-id": thread,
      category,
      "interruption-level": priority === "low" ? "passive" : "active",
      sound: "default"
    },
    v: 1,
    n: delivery_id,
    k: kind,
    r: reference
  })
}
