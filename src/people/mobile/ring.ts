/** Rings a device because its owner asked for it, through the same queue as every notification, and says what happened. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { uuid } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { bucketsOfPart } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import type { Actor } from "../../wire/Actor.ts"
import { refuse } from "../../wire/mobile/MobileApi.ts"
import { outcomeOf } from "../DeviceTest.ts"
import * as Store from "./DeviceStore.ts"

/** Tests of one device. */
const testRate = { perSecond: 1 / 60, burst: 5 }

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

  const ring = Effect.fn("Devices.ring")(function* (owner: Actor, device_id: string) {
    const event_id = yield* enqueue(owner, device_id)
    return { device_id, ...(yield* outcomeOf(sql, event_id, device_id)) }
  })

  return { ring }
})
