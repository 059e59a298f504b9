/** What whoever tests a device or a channel is told of the notification that was sent for it. */
import { Schedule } from "effect"
import type { DeviceTested } from "../../wire/mobile/MobileApi.ts"

/** A test as the queue has it. */
interface Delivery {
  readonly state: "pending" | "leased" | "delivered" | "superseded" | "expired" | "suppressed" | "dead"
  readonly attempts: number
  readonly last_status: number | null
  readonly last_reason: string | null
}

/** Eight seconds: a provider has ten, and whoever asked should not wait longer. */
export const patience = { schedule: Schedule.spaced("200 millis"), times: 40 }

/** It may still be sent for the first time. */
export const isOpen = ({ attempts, last_status, last_reason, state }: Delivery): boolean =>
  state === "leased" || (state === "pending" && (attempts === 0 || (last_status === null && last_reason === null)))

type Tested = Omit<DeviceTested, "device_id">
export const untouched: Tested = { outcome: "waiting", status: null, reason: null }

export const testedOf = ({ attempts, last_reason: reason, last_status: status, state }: Delivery): Tested => {
  if (state === "delivered") return { outcome: "accepted", status, reason }
  if (state === "suppressed") return { outcome: "gone", status, reason }
  if (state === "dead" || state === "expired") return { outcome: "refused", status, reason }
  return { outcome: state === "pending" && attempts > 0 ? "retrying" : "waiting", status, reason }
}
