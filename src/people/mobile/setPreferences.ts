/** What the owner of a phone wants to hear (spec 4.12): the whole document, at a version where one is named. */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { after } from "../../wire/Instant.ts"
import type { Preferences } from "../../wire/mobile/Notifications.ts"
import { refuse } from "../../wire/mobile/MobileErrors.ts"
import * as Owner from "./Owner.ts"
import * as Store from "./DeviceStore.ts"

const longestPause = Duration.days(30)

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const outbox = yield* Outbox
  const { done, owner } = yield* Owner.make
  const store = Store.make(sql)

  const pausable = Effect.fnUntraced(function* (preferences: Preferences | undefined, now: Date) {
    const until = preferences?.paused_until ?? null
    if (until !== null && until > after(now, longestPause)) return yield* refuse("invalid_request")
  })

  /** What was held for the preferences from before is judged by these, at once. */
  const recall = (device_id: string, now: Date) => Effect.andThen(store.recallHeld(device_id, now), outbox.ring)

  const setPreferences = Effect.fn("Devices.setPreferences")(function* (
    actor: Actor,
    id: string,
    preferences: Preferences,
    versions: ReadonlyArray<number> | undefined
  ) {
    const by = yield* owner(actor)
    const now = yield* clock.now
    yield* pausable(preferences, now)

    const attempt = Effect.gen(function* () {
      const set = yield* store.setPreferences(by, id, preferences, versions ?? null, now)
      if (Option.isNone(set)) return Option.none()
      yield* recall(id, now)
      const actor = actorName(by)
      yield* done(now, "mobile_device.preferences_set", { project_id: by.project_id, actor }, id)
      return Option.some({ device_id: id, preferences, version: set.value.preferences_version })
    }).pipe(sql.withTransaction)

    const explain = Effect.gen(function* () {
      const found = yield* store.find(by, id)
      if (Option.isNone(found)) return yield* refuse("device_not_found")
      if (found.value.state !== "active") return yield* refuse("device_revoked")
      const stale = versions !== undefined && !versions.includes(found.value.preferences_version)
      return stale ? yield* refuse("preferences_version_conflict") : Option.none()
    })

    return yield* untilSettled(attempt, explain)
  }, persistence)

  return { pausable, recall, setPreferences }
})
