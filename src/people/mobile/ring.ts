/** Rings a device because its owner asked for it, through the same queue as every notification, and says what happened. */
import { Effect, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { uuid } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { bucketsOfPart } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import type { Actor } from "../../wire/Actor.ts"
import { type DeviceTested, refuse } from "../../wire/mobile/MobileApi.ts"
import * as Store from "./DeviceStore.ts"

/** Tests of one device. */
const testRate = { perSecond: 1 / 60, burst: 5 }
/** Eight seconds: a provider has ten, and whoever asked should not wait longer. */
const patience = { schedule: Schedule.spaced("200 millis"), times: 40 }

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const outbox = yield* Outbox
  const { http, processes } = yield* Settings
  const store = Store.make(sql)
  const tests = bucketsOfPart(testRate, processes)

  const enqueue = Effect.fnUntraced(function* (owner: Actor, device_id: string) {
    const now = yield* clock.now
    const device = yield* store.find(owner, device_id)
    if (Option.isNone(device)) return yield* refuse("device_not_found")
    if (device.value.state !== "active") return yield* refuse("device_revoked")
    const wait = http.rateLimits ? yield* tests.take(device_id) : 0
    if (wait > 0) return yield* refuse("rate_limited", wait)
    const event_id = yield* uuid
    const notice = { kind: "device.test", event_id, project_id: owner.project_id, about: device_id } as const
    yield* sql.withTransaction(outbox.enqueue(now, { ...notice, only: sql`d.device_id = ${device_id}::uuid` }))
    return event_id
  }, persistence)

  /** Each look is an operation of its own: nobody else waits for a connection meanwhile. */
  const ring = Effect.fn("Devices.ring")(function* (owner: Actor, device_id: string) {
    const event_id = yield* enqueue(owner, device_id)
    const delivery = yield* persistence(store.findDelivery(event_id)).pipe(
      Effect.repeat({ ...patience, while: Option.exists(isOpen) })
    )
    return { device_id, ...Option.match(delivery, { onNone: () => untouched, onSome: testedOf }) }
  })

  return { ring }
})

/** It may still be sent for the first time. */
const isOpen = ({ attempts, last_status, last_reason, state }: Store.Delivery) =>
  state === "leased" || (state === "pending" && (attempts === 0 || (last_status === null && last_reason === null)))

type Tested = Omit<DeviceTested, "device_id">
const untouched: Tested = { outcome: "waiting", status: null, reason: null }

const testedOf = ({ attempts, last_reason: reason, last_status: status, state }: Store.Delivery): Tested => {
  if (state === "delivered") return { outcome: "accepted", status, reason }
  if (state === "suppressed") return { outcome: "gone", status, reason }
  if (state === "dead" || state === "expired") return { outcome: "refused", status, reason }
  return { outcome: state === "pending" && attempts > 0 ? "retrying" : "waiting", status, reason }
}
