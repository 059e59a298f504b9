/**
 * Phones that receive notifications (spec 2.9, 4.12): each is registered by a sign-in and owned by its subject.
 *
 * 1. A phone registers its push token, which is stored sealed and found by a keyed hash. Registering the same
 *    installation again renews its device (register.ts).
 * 2. An installation that another owner had registered has changed hands: the earlier device ends first.
 *    Otherwise the new owner would see the earlier owner's notifications.
 * 3. Sign-out revokes the device (revoke.ts): one transaction suppresses its waiting deliveries and deletes the push token.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import type { Actor } from "../../wire/Actor.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import type { Preferences } from "../../wire/mobile/Notifications.ts"
import {
  type Device,
  type DeviceRevoked,
  type DeviceTested,
  type PreferencesSet,
  type RegisterDevice,
  type Registration,
  type MobileRefusal,
  refuse
} from "../../wire/mobile/MobileApi.ts"
import { type DeviceOperatorRefusal, refuseOperator } from "./Errors.ts"
import * as Owner from "./Owner.ts"
import * as Store from "./DeviceStore.ts"
import * as Register from "./register.ts"
import * as Ring from "./ring.ts"
import * as Revoke from "./revoke.ts"
import * as SetPreferences from "./setPreferences.ts"
import type { Page } from "../../platform/sql/Page.ts"

type Unavailable = SharedRefusal<"bridge_persistence_error">

export class Devices extends Context.Service<
  Devices,
  {
    /** `key`: the Idempotency-Key, if the request has one. */
    readonly register: (
      owner: Actor,
      request: RegisterDevice,
      key: string | undefined
    ) => Effect.Effect<Registration, MobileRefusal<"register">>
    /** decisions.md, Reading a device. */
    readonly get: (owner: Actor, id: string) => Effect.Effect<Device, MobileRefusal<"get">>
    /** `versions`: the versions that If-Match accepts; undefined accepts any. */
    readonly setPreferences: (
      owner: Actor,
      id: string,
      preferences: Preferences,
      versions: ReadonlyArray<number> | undefined
    ) => Effect.Effect<PreferencesSet, MobileRefusal<"setPreferences">>
    /** May be repeated. */
    readonly revoke: (owner: Actor, id: string) => Effect.Effect<DeviceRevoked, MobileRefusal<"revoke">>
    /** Sends a test, and waits up to eight seconds for what becomes of it. */
    readonly ring: (owner: Actor, id: string) => Effect.Effect<DeviceTested, MobileRefusal<"test">>
    /** The active devices of a person. */
    readonly own: (owner: Store.Owner) => Effect.Effect<ReadonlyArray<Device>, Unavailable>
    /** For the operator: newest first. */
    readonly list: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<Store.Listed>, DeviceOperatorRefusal<"list">>
    /** For the operator; may be repeated. */
    readonly end: (device_id: string) => Effect.Effect<{ readonly revoked_at: Date }, DeviceOperatorRefusal<"end">>
  }
>()("service/mobile/Devices") {
  static readonly layer = Layer.effect(
    Devices,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = Store.make(sql)
      const register = yield* Register.make
      const { setPreferences } = yield* SetPreferences.make
      const { end, revoke } = yield* Revoke.make
      const { ring } = yield* Ring.make

      const get = Effect.fn("Devices.get")(function* (owner: Actor, id: string) {
        const found = yield* store.find(owner, id)
        return Option.isSome(found) ? Owner.answerOf(found.value) : yield* refuse("device_not_found")
      }, persistence)

      const list = Effect.fn("Devices.list")(function* (project_id: string, page: Page) {
        if (!(yield* projectExists(sql, project_id))) return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id, page)
      }, persistence)

      const own = Effect.fn("Devices.own")(
        (owner: Store.Owner) => Effect.map(store.listActive(owner), (found) => found.map(Owner.answerOf)),
        persistence
      )

      return { register, own, get, setPreferences, revoke, ring, list, end }
    })
  )
}
