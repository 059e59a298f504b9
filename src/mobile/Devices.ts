/**
 * The phones that receive notifications (spec 2.9, 4.12): registered by a sign-in, owned by its subject.
 *
 * 1. A phone registers its push token. The token is kept sealed and found by a keyed hash, so that the same installation
 *    is the same device, however often it registers.
 * 2. If somebody else had registered the installation, the phone has changed hands: their device ends first, or its next
 *    owner would see the last one's notifications.
 * 3. Sign-out revokes the device. What waits for it is suppressed, and the token is forgotten, in the same transaction.
 */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Access, type Granted } from "../access/Access.ts"
import { Audit } from "../audit/Audit.ts"
import { Settings } from "../Config.ts"
import { uuidAt } from "../crypto/Random.ts"
import { equal, sha256 } from "../crypto/Sha256.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence, untilSettled } from "../database/Persistence.ts"
import { PushKeys } from "../push/Keys.ts"
import { Outbox } from "../push/Outbox.ts"
import { type Actor, actorName } from "../wire/Actor.ts"
import { after } from "../wire/Instant.ts"
import { initialPreferences, type Preferences } from "../wire/Notifications.ts"
import { type Device, type DeviceRevoked, type PreferencesSet, type RegisterDevice, Registration } from "./Api.ts"
import { type DeviceOperatorRefusal, type MobileRefusal, refuse, refuseOperator } from "./Errors.ts"
import * as Store from "./Store.ts"

/** Active devices at once. */
const mostOfSubject = 20
const mostOfProject = 50
const longestPause = Duration.days(30)
/** The topic where nothing is delivered to any app: the log. */
const noApp = "local.bridge-service"

type Guarded = MobileRefusal<"unauthorized" | "insufficient_scope" | "bridge_persistence_error">
type Listed = typeof Store.Listed.Type

export class Devices extends Context.Service<
  Devices,
  {
    readonly register: (
      actor: Actor,
      asked: RegisterDevice,
      key: string | undefined
    ) => Effect.Effect<
      Registration,
      | Guarded
      | MobileRefusal<
          | "invalid_request"
          | "push_environment_not_allowed"
          | "push_topic_not_allowed"
          | "device_limit_reached"
          | "device_revoked"
          | "idempotency_conflict"
        >
    >
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
    readonly list: (
      project_id: string
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
      const access = yield* Access
      const audit = yield* Audit
      const keys = yield* PushKeys
      const outbox = yield* Outbox
      const { push } = yield* Settings
      const store = Store.make(sql)

      /** Only a sign-in that was allowed it. */
      const owner = Effect.fnUntraced(function* (actor: Actor) {
        const granted = yield* access.requireGrant(actor)
        yield* access.require(granted, "mobile:devices")
        return granted
      })

      const done = (now: Date, action: string, { project_id, actor }: Done, device_id: string) =>
        audit.done(now, { action, project_id, actor, subject: { device_id } })

      /** With APNs the app has to be one that the key can speak for; the log takes any. */
      const topicOf = Effect.fnUntraced(function* (topic: string | undefined) {
        const chosen = topic ?? push.topics[0] ?? noApp
        const allowed = push.apns === undefined || push.topics.includes(chosen)
        return allowed ? chosen : yield* refuse("push_topic_not_allowed")
      })

      const pausable = Effect.fnUntraced(function* (preferences: Preferences | undefined, now: Date) {
        const until = preferences?.paused_until ?? null
        if (until !== null && until > after(now, longestPause)) return yield* refuse("invalid_request")
      })

      const register = Effect.fn("Devices.register")(function* (
        actor: Actor,
        asked: RegisterDevice,
        key: string | undefined
      ) {
        const by = yield* owner(actor)
        const now = yield* clock.now
        const { environment, token } = asked.push
        if (!push.environments.includes(environment)) return yield* refuse("push_environment_not_allowed")
        const topic = yield* topicOf(asked.push.topic)
        yield* pausable(asked.preferences, now)
        const lookups = keys.lookups({ environment, topic, token })
        const ask = { by, asked, lookups, environment, topic }
        const retry = key === undefined ? undefined : { key_hash: sha256(key), request_hash: requestHash(ask) }

        const attempt = Effect.gen(function* () {
          yield* store.lockProject(by.project_id)
          if (retry === undefined) return yield* enter(ask, now)
          const earlier = yield* store.findRegistration(by, retry.key_hash)
          if (Option.isSome(earlier)) return yield* replay(by, earlier.value, retry.request_hash)
          const registration = yield* enter(ask, now)
          const { created, device } = registration
          yield* store.insertRegistration(by, { ...retry, device_id: device.device_id, created }, now)
          return registration
        }).pipe(
          sql.withTransaction,
          Effect.asSome,
          // The same installation in two projects at once: the index lets one through, the other then takes it over.
          Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeedNone)
        )
        return yield* untilSettled(attempt)
      }, persistence)

      const enter = Effect.fnUntraced(function* ({ asked, by, environment, lookups, topic }: Ask, now: Date) {
        const known = yield* store.lockInstallation(lookups)
        const mine = Option.filter(known, (device) => isOf(device, by))
        const device_id = Option.isSome(mine) ? mine.value.device_id : yield* uuidAt(now)
        const device: Store.Registered = {
          device_id,
          project_id: by.project_id,
          subject: by.subject,
          client_id: by.client_id,
          grant_id: by.grant_id,
          ...(yield* keys.seal(asked.push.token, device_id)),
          token_lookup: lookups[0],
          app_version: asked.app_version ?? null,
          os_version: asked.os_version ?? null,
          locale: asked.locale ?? null,
          preferences: asked.preferences ?? null
        }
        const actor = actorName(by)
        if (Option.isSome(mine)) {
          const renewed = Option.getOrThrow(yield* store.renew(device, now))
          if (asked.preferences !== undefined) yield* recall(device_id, now)
          yield* done(now, "mobile_device.renewed", { project_id: by.project_id, actor }, device_id)
          return new Registration(answerOf(renewed), false, false)
        }
        if (Option.isSome(known)) {
          const { device_id: theirs, project_id } = known.value
          yield* store.revoke(theirs, "registered_by_another", now)
          yield* done(now, "mobile_device.handed_over", { project_id, actor: `mobile_device:${device_id}` }, theirs)
        }
        const { ofProject, ofSubject } = Option.getOrThrow(yield* store.count(by))
        if (ofSubject >= mostOfSubject || ofProject >= mostOfProject) return yield* refuse("device_limit_reached")
        const inserted = Option.getOrThrow(
          yield* store.insert({ ...device, environment, topic }, initialPreferences, now)
        )
        yield* done(now, "mobile_device.registered", { project_id: by.project_id, actor }, device_id)
        yield* outbox.enqueue(now, {
          kind: "security.device_added",
          event_id: device_id,
          project_id: by.project_id,
          about: device_id,
          only: sql`d.subject = ${by.subject}::uuid and d.device_id <> ${device_id}::uuid`
        })
        return new Registration(answerOf(inserted), true, false)
      })

      /** The answer that was lost. A device that has ended since is not brought back by a request from before. */
      const replay = Effect.fnUntraced(function* (
        by: Granted,
        earlier: { readonly device_id: string; readonly request_hash: Uint8Array; readonly created: boolean },
        request_hash: Uint8Array
      ) {
        if (!equal(earlier.request_hash, request_hash)) return yield* refuse("idempotency_conflict")
        const device = Option.getOrThrow(yield* store.find(by, earlier.device_id))
        if (device.state !== "active") return yield* refuse("device_revoked")
        return new Registration(answerOf(device), earlier.created, true)
      })

      const recall = (device_id: string, now: Date) => Effect.andThen(store.recallHeld(device_id, now), outbox.ring)

      const get = Effect.fn("Devices.get")(function* (actor: Actor, id: string) {
        const found = yield* store.find(yield* owner(actor), id)
        return Option.isSome(found) ? answerOf(found.value) : yield* refuse("device_not_found")
      }, persistence)

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

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
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
          const found = Option.filter(yield* store.lock(id), (device) => isOf(device, by))
          if (Option.isNone(found)) return yield* refuse("device_not_found")
          const revoked_at = yield* ended(found.value, "signed_out", actorName(by), now)
          return { device_id: id, state: "revoked" as const, revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Devices.list")(function* (project_id: string) {
        if ((yield* store.projectExists(project_id)).length === 0) return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id)
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

interface Done {
  readonly project_id: string
  readonly actor: string
}

interface Ask {
  readonly by: Granted
  readonly asked: RegisterDevice
  readonly lookups: readonly [Uint8Array, ...ReadonlyArray<Uint8Array>]
  readonly environment: RegisterDevice["push"]["environment"]
  readonly topic: string
}

const isOf = ({ project_id, subject }: Store.Row, by: Store.Owner) =>
  project_id === by.project_id && subject === by.subject

/** The last of the lookups is the one whose key changes last: a retry over a change of keys is still the same request. */
const requestHash = ({ asked, environment, lookups, topic }: Ask) => {
  const { app_version = null, locale = null, os_version = null, preferences = null } = asked
  const installation = Buffer.from(lookups.at(-1)!).toString("base64url")
  return sha256(JSON.stringify([environment, topic, installation, app_version, os_version, locale, preferences]))
}

const answerOf = (device: Store.Row): Device => ({
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
