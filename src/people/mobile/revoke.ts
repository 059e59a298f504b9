/** Ends a device: by its owner at sign-out (spec 4.13), or by the operator. Both may be repeated. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { refuse } from "../../wire/mobile/MobileApi.ts"
import * as AnyDeviceStore from "../AnyDeviceStore.ts"
import { refuseOperator } from "./Errors.ts"
import * as Owner from "./Owner.ts"
import * as Store from "./DeviceStore.ts"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const { auditDevice } = yield* Owner.make
  const store = Store.make(sql)
  const devices = AnyDeviceStore.make(sql)

  /** Returns when the device ended: now, unless it had ended before. */
  const endDevice = Effect.fnUntraced(function* (device: Store.Row, reason: string, actor: string, now: Date) {
    const changed = yield* devices.revoke(device.device_id, reason, now)
    if (changed.length > 0) {
      yield* auditDevice(now, "mobile_device.revoked", { project_id: device.project_id, actor }, device.device_id)
    }
    return device.ended_at ?? now
  })

  const revoke = Effect.fn("Devices.revoke")(
    function* (owner: Actor, id: string) {
      const now = yield* clock.now
      const found = Option.filter(yield* store.lock(id), (device) => Owner.owns(owner, device))
      if (Option.isNone(found)) return yield* refuse("device_not_found")
      const revoked_at = yield* endDevice(found.value, "signed_out", actorName(owner), now)
      return { device_id: id, state: "revoked" as const, revoked_at }
    },
    sql.withTransaction,
    persistence
  )

  const end = Effect.fn("Devices.end")(
    function* (device_id: string) {
      const now = yield* clock.now
      const found = yield* store.lock(device_id)
      if (Option.isNone(found)) return yield* refuseOperator("device_not_found")
      return { revoked_at: yield* endDevice(found.value, "revoked_by_operator", yield* CurrentOperator, now) }
    },
    sql.withTransaction,
    persistence
  )

  return { revoke, end }
})
