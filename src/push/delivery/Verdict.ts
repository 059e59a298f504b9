/** Whether a claimed delivery may ring now: asked again just before it is sent, because everything may have changed. */
import { hasPassed } from "../../wire/Instant.ts"
import { kinds, wants } from "../../wire/mobile/Notifications.ts"
import { quietUntil } from "./QuietHours.ts"
import type { Claimed } from "./DeliveryStore.ts"

export type Verdict =
  | { readonly _tag: "Send" }
  /** Held, not dropped: it comes then, unless it has expired. */
  | { readonly _tag: "Hold"; readonly until: Date; readonly reason: "paused" | "quiet_hours" }
  | { readonly _tag: "Suppress"; readonly reason: string }

export const verdictOf = ({ authorized, kind, preferences, state }: Claimed, now: Date): Verdict => {
  if (state !== "active") return { _tag: "Suppress", reason: `device_${state}` }
  if (!authorized) return { _tag: "Suppress", reason: "not_authorized" }
  if (!wants(preferences, kind)) return { _tag: "Suppress", reason: "not_wanted" }
  const { paused_until, quiet_hours } = preferences
  if (paused_until !== null && !hasPassed(paused_until, now)) {
    return { _tag: "Hold", until: paused_until, reason: "paused" }
  }
  if (quiet_hours?.enabled !== true || (kinds[kind].priority === "urgent" && quiet_hours.allow_urgent)) {
    return { _tag: "Send" }
  }
  const until = quietUntil(quiet_hours, now)
  return until === undefined ? { _tag: "Send" } : { _tag: "Hold", until, reason: "quiet_hours" }
}
