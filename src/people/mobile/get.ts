/** Reads a device of the caller (decisions.md, Reading a device). */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import type { Device } from "../../wire/mobile/MobileApi.ts"
import { refuse } from "../../wire/mobile/MobileErrors.ts"
import * as Owner from "./Owner.ts"
import * as Store from "./DeviceStore.ts"

export const make = Effect.gen(function* () {
  const { requireOwner } = yield* Owner.make
  const store = Store.make(yield* SqlClient.SqlClient)

  return Effect.fn("Devices.get")(function* (actor: Actor, id: string) {
    const found = yield* store.find(yield* requireOwner(actor), id)
    return Option.isSome(found) ? answerOf(found.value) : yield* refuse("device_not_found")
  }, persistence)
})

/** The device as the API returns it. */
export const answerOf = (device: Store.Row): Device => ({
  device_id: device.device_id,
  state: device.state,
  platform: "ios",
  push: {
    provider: "apns",
    environment: device.environment,
    topic: device.topic,
    token_fingerprint: device.token_fingerprint
  },
  preferences: device.preferences,
  preferences_version: device.preferences_version,
  created_at: device.created_at,
  last_seen_at: device.last_seen_at
})
