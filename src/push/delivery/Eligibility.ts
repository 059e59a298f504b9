/** Whether a claimed delivery may be sent now: preferences and sign-in may have changed since it was written. */
import { hasPassed } from "../../wire/Instant.ts"
import { isForChannels, type Lane, notificationKinds, wants } from "../../wire/mobile/Notifications.ts"
import { quietUntil } from "./QuietHours.ts"
import type { ClaimedDelivery } from "./LeaseStore.ts"

export type Eligibility =
  | { readonly _tag: "Send" }
  /** Not dropped: it is sent at `until`, unless it has expired by then. */
  | { readonly _tag: "Hold"; readonly until: Date; readonly reason: "paused" | "quiet_hours" }
  | { readonly _tag: "Suppress"; readonly reason: string }

export const eligibilityOf = (
  { authorized, kind, preferences, state }: Pick<ClaimedDelivery, "authorized" | "kind" | "preferences" | "state">,
  lane: Lane,
  now: Date
): Eligibility => {
  if (state !== "active") return { _tag: "Suppress", reason: `device_${state}` }
  if (!authorized) return { _tag: "Suppress", reason: "not_authorized" }
  // A replica of an earlier release has written it during an upgrade.
  if (lane === "channel" && !isForChannels(kind)) return { _tag: "Suppress", reason: "not_wanted" }
  if (!wants(preferences, kind)) return { _tag: "Suppress", reason: "not_wanted" }
  // Its owner waits for it.
  if (kind === "device.test") return { _tag: "Send" }
  const { paused_until, quiet_hours } = preferences
  if (paused_until !== null && !hasPassed(paused_until, now)) {
    return { _tag: "Hold", until: paused_until, reason: "paused" }
  }
  if (quiet_hours?.enabled !== true || (notificationKinds[kind].priority === "urgent" && quiet_hours.allow_urgent)) {
    return { _tag: "Send" }
  }
  const until = quietUntil(quiet_hours, now)
  return until === undefined ? { _tag: "Send" } : { _tag: "Hold", until, reason: "quiet_hours" }
}
