/**
 * The phones that receive notifications (spec 2.9, 4.12): registered by a sign-in, owned by its subject.
 *
 * 1. A phone registers its push token. The token is kept sealed and found by a keyed hash, so that the same installation
 *    is the same device, however often it registers.
 * 2. If somebody else had registered the installation, the phone has changed hands: their device ends first, or its next
 *    owner would see the last one's notifications.
 * 3. Sign-out revokes the device. What waits for it is suppressed, and the token is forgotten, in the same transaction.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { Preferences } from "../../wire/mobile/Notifications.ts"
import type {
  Device,
  DeviceRevoked,
  PreferencesSet,
  RegisterDevice,
  Registration
} from "../../wire/mobile/MobileApi.ts"
import { type MobileRefusal, refuse } from "../../wire/mobile/MobileErrors.ts"
import { type DeviceOperatorRefusal, refuseOperator } from "./Errors.ts"
import * as Owner from "./Owner.ts"
import type { Guarded } from "./Owner.ts"
import * as Preferring from "./setPreferences.ts"
import * as Registering from "./register.ts"
import * as Store from "./DeviceStore.ts"

type Listed = typeof Store.Listed.Type

export class Devices extends Context.Service<
  Devices,
  {
    readonly register: (
      actor: Actor,
      asked: RegisterDevice,
      key: string | undefined
    ) => Effect.Effect<Registration, Registering.RegisterRefusal>
    readonly get: (actor: Actor, id: string) => Effect.Effect<Device, Guarded | MobileRefusal<"device_not_found">>
    /** `versions`: the change is made only to one of them; undefined: to any. */
    readonly setPreferences: (
      actor: Actor,
      id: string,
      preferences: Preferences,
      versions: ReadonlyArray<number> | undefined
    ) => Effect.Effect<
      PreferencesSet,
      | Guarded
      | MobileRefusal<"invalid_request" | "device_not_found" | "device_revoked" | "preferences_version_conflict">
    >
    /** May be repeated. */
    readonly revoke: (
      actor: Actor,
      id: string
    ) => Effect.Effect<DeviceRevoked, Guarded | MobileRefusal<"device_not_found">>
    /** Those that are active first, then the newest. */
    readonly list: (
      project_id: string,
      limit: number
    ) => Effect.Effect<ReadonlyArray<Listed>, DeviceOperatorRefusal<"project_not_found" | "bridge_persistence_error">>
    /** The operator's; may be repeated. */
    readonly end: (
      device_id: string
    ) => Effect.Effect<
      { readonly revoked_at: Date },
      DeviceOperatorRefusal<"device_not_found" | "bridge_persistence_error">
    >
  }
>()("service/mobile/Devices") {
  static readonly layer = Layer.effect(
    Devices,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const { done, owner } = yield* Owner.make
      const register = yield* Registering.make
      const { setPreferences } = yield* Preferring.make
      const store = Store.make(sql)

      const get = Effect.fn("Devices.get")(function* (actor: Actor, id: string) {
        const found = yield* store.find(yield* owner(actor), id)
        return Option.isSome(found) ? Owner.answerOf(found.value) : yield* refuse("device_not_found")
      }, persistence)

      const ended = Effect.fnUntraced(function* (device: Store.Row, reason: string, actor: string, now: Date) {
        const changed = yield* store.revoke(device.device_id, reason, now)
        if (changed.length > 0) {
          yield* done(now, "mobile_device.revoked", { project_id: device.project_id, actor }, device.device_id)
        }
        return device.ended_at ?? now
      })

      const revoke = Effect.fn("Devices.revoke")(
        function* (actor: Actor, id: string) {
          const by = yield* owner(actor)
          const now = yield* clock.now
          const found = Option.filter(yield* store.lock(id), (device) => Owner.isOf(device, by))
          if (Option.isNone(found)) return yield* refuse("device_not_found")
          const revoked_at = yield* ended(found.value, "signed_out", actorName(by), now)
          return { device_id: id, state: "revoked" as const, revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Devices.list")(function* (project_id: string, limit: number) {
        if ((yield* store.projectExists(project_id)).length === 0) return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id, limit)
      }, persistence)

      const end = Effect.fn("Devices.end")(
        function* (device_id: string) {
          const now = yield* clock.now
          const found = yield* store.lock(device_id)
          if (Option.isNone(found)) return yield* refuseOperator("device_not_found")
          return { revoked_at: yield* ended(found.value, "revoked_by_operator", "operator", now) }
        },
        sql.withTransaction,
        persistence
      )

      return { register, get, setPreferences, revoke, list, end }
    })
  )
}
