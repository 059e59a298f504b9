/**
 * What leaves for the provider: the name of a sentence that the app holds, and opaque ids. No word of a project, a task
 * or a Bridge; the watch that mirrors the phone shows the same (spec 4.13.7).
 */
import { type KindName, kinds } from "../../wire/mobile/Notifications.ts"

export interface Told {
  readonly delivery_id: string
  readonly kind: KindName
  readonly project_id: string
  readonly reference: string | null
}

/** `thread` groups the notifications of one project on the phone and does not tell which it is. */
export const payload = ({ delivery_id, kind, reference }: Told, thread: string): string => {
  const name = `N_${kind.toUpperCase().replace(".", "_")}`
  const { category, priority } = kinds[kind]
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
