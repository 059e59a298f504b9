/** What becomes of a test of a device, which goes through the same queue as every notification. */
import { Effect, Option, Schedule } from "effect"
import type { SqlClient } from "effect/sql"
import { persistence } from "../platform/database/Persistence.ts"
import type { DeviceTested } from "../wire/mobile/MobileApi.ts"
import * as Store from "./AnyDeviceStore.ts"

export type TestOutcome = Omit<DeviceTested, "device_id">

/** Eight seconds: a provider and a receiver have ten, and whoever asked should not wait longer. */
const patience = { schedule: Schedule.spaced("200 millis"), times: 40 }

/** Each look is an operation of its own: nobody else waits for a connection meanwhile. */
export const outcomeOf = (sql: SqlClient.SqlClient, event_id: string, device_id: string) =>
  persistence(Store.make(sql).findDelivery(event_id, device_id)).pipe(
    Effect.repeat({ ...patience, while: Option.exists(isOpen) }),
    Effect.map(Option.match({ onNone: () => untouched, onSome: testedOf }))
  )

/** It may still be sent for the first time. */
const isOpen = ({ attempts, last_reason, last_status, state }: Store.Delivery) =>
  state === "leased" || (state === "pending" && (attempts === 0 || (last_status === null && last_reason === null)))

const untouched: TestOutcome = { outcome: "waiting", status: null, reason: null }

export const testedOf = ({
  attempts,
  last_reason: reason,
  last_status: status,
  state
}: Store.Delivery): TestOutcome => {
  if (state === "delivered") return { outcome: "accepted", status, reason }
  if (state === "suppressed") return { outcome: "gone", status, reason }
  if (state === "dead" || state === "expired") return { outcome: "refused", status, reason }
  return { outcome: state === "pending" && attempts > 0 ? "retrying" : "waiting", status, reason }
}
