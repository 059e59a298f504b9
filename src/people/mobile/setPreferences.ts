/** Replaces the notification preferences of a device (spec 4.12), at the version that If-Match names, if any. */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { after } from "../../wire/Instant.ts"
import type { Preferences } from "../../wire/mobile/Notifications.ts"
import { refuse } from "../../wire/mobile/MobileApi.ts"
import * as Owner from "./Owner.ts"
import * as Store from "./DeviceStore.ts"

const longestPause = Duration.days(30)

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const outbox = yield* Outbox
  const { auditDevice } = yield* Owner.make
  const store = Store.make(sql)

  const checkPause = Effect.fnUntraced(function* (preferences: Preferences | undefined, now: Date) {
    const until = preferences?.paused_until ?? null
    if (until !== null && until > after(now, longestPause)) return yield* refuse("invalid_request")
  })

  /** Held notifications are checked at once against the new preferences. */
  const releaseHeld = (device_id: string, now: Date) => Effect.andThen(store.releaseHeld(device_id, now), outbox.wake)

  const setPreferences = Effect.fn("Devices.setPreferences")(function* (
    owner: Actor,
    id: string,
    preferences: Preferences,
    versions: ReadonlyArray<number> | undefined
  ) {
    const now = yield* clock.now
    yield* checkPause(preferences, now)

    const attempt = Effect.gen(function* () {
      const set = yield* store.setPreferences(owner, id, preferences, versions ?? null, now)
      if (Option.isNone(set)) return Option.none()
      yield* releaseHeld(id, now)
      const by = { project_id: owner.project_id, actor: actorName(owner) }
      yield* auditDevice(now, "mobile_device.preferences_set", by, id)
      return Option.some({ device_id: id, preferences, version: set.value.preferences_version })
    }).pipe(sql.withTransaction)

    const explain = Effect.gen(function* () {
      const found = yield* store.find(owner, id)
      if (Option.isNone(found)) return yield* refuse("device_not_found")
      if (found.value.state !== "active") return yield* refuse("device_revoked")
      const isStale = versions !== undefined && !versions.includes(found.value.preferences_version)
      return isStale ? yield* refuse("preferences_version_conflict") : Option.none()
    })

    return yield* untilSettled(attempt, explain)
  }, persistence)

  return { checkPause, releaseHeld, setPreferences }
})
