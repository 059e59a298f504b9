/** Registration (spec 4.12): the same installation is the same device, and one that changed hands ends first. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Granted } from "../../signin/access/Access.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { findToken } from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { PushKeys } from "../../push/PushKeys.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { initialPreferences } from "../../wire/mobile/Notifications.ts"
import { type RegisterDevice, Registration } from "../../wire/mobile/MobileApi.ts"
import { type MobileRefusal, refuse } from "../../wire/mobile/MobileErrors.ts"
import * as Owner from "./Owner.ts"
import * as Preferring from "./setPreferences.ts"
import * as RegistrationStore from "./RegistrationStore.ts"
import * as Store from "./DeviceStore.ts"

export type RegisterRefusal =
  | Owner.Guarded
  | MobileRefusal<
      | "invalid_request"
      | "push_environment_not_allowed"
      | "push_topic_not_allowed"
      | "device_limit_reached"
      | "device_revoked"
      | "idempotency_conflict"
    >

/** Active devices at once. */
const mostOfSubject = 20
const mostOfProject = 50
/** The topic where nothing is delivered to any app: the log. */
const noApp = "local.bridge-service"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const keys = yield* PushKeys
  const outbox = yield* Outbox
  const { push } = yield* Settings
  const { done, owner } = yield* Owner.make
  const { pausable, recall } = yield* Preferring.make
  const registrations = RegistrationStore.make(sql)
  const store = Store.make(sql)

  const register = Effect.fn("Devices.register")(function* (
    actor: Actor,
    asked: RegisterDevice,
    key: string | undefined
  ) {
    const by = yield* owner(actor)
    // A version is kept and shown to the operator: a token that somebody put there by mistake must not be.
    if ([asked.app_version, asked.os_version].some((text = "") => findToken(text) !== undefined)) {
      return yield* refuse("invalid_request")
    }
    const now = yield* clock.now
    const { environment, token } = asked.push
    if (!push.environments.includes(environment)) return yield* refuse("push_environment_not_allowed")
    const topic = yield* topicOf(asked.push.topic)
    yield* pausable(asked.preferences, now)
    const lookups = keys.lookups({ environment, topic, token })
    const ask = { by, asked, lookups, environment, topic }
    const retry = key === undefined ? undefined : { key_hash: sha256(key), request_hash: requestHash(ask) }

    const attempt = Effect.gen(function* () {
      yield* registrations.lockProject(by.project_id)
      if (retry === undefined) return yield* enter(ask, now)
      const earlier = yield* registrations.findRegistration(by, retry.key_hash)
      if (Option.isSome(earlier)) return yield* replay(by, earlier.value, retry.request_hash)
      const registration = yield* enter(ask, now)
      const { created, device } = registration
      yield* registrations.insertRegistration(by, { ...retry, device_id: device.device_id, created }, now)
      return registration
    }).pipe(
      sql.withTransaction,
      Effect.asSome,
      // The same installation in two projects at once: the index lets one through, the other then takes it over.
      Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeedNone)
    )
    return yield* untilSettled(attempt)
  }, persistence)

  /** With APNs the app has to be one that the key can speak for; the log takes any. */
  const topicOf = Effect.fnUntraced(function* (topic: string | undefined) {
    const chosen = topic ?? push.topics[0] ?? noApp
    const allowed = push.apns === undefined || push.topics.includes(chosen)
    return allowed ? chosen : yield* refuse("push_topic_not_allowed")
  })

  const enter = Effect.fnUntraced(function* (ask: Ask, now: Date) {
    const { asked, by, environment, lookups, topic } = ask
    const known = yield* registrations.lockInstallation(lookups)
    const mine = Option.filter(known, (device) => Owner.isOf(device, by))
    const device_id = Option.isSome(mine) ? mine.value.device_id : yield* uuidAt(now)
    const device = { ...described(ask), ...(yield* keys.seal(asked.push.token, device_id)), device_id }
    const as = { project_id: by.project_id, actor: actorName(by) }
    if (Option.isSome(mine)) {
      yield* registrations.renew(device, now)
      if (asked.preferences !== undefined) yield* recall(device_id, now)
      yield* done(now, "mobile_device.renewed", as, device_id)
      return yield* answer(by, { device_id, created: false, replayed: false })
    }
    if (Option.isSome(known)) {
      const { device_id: theirs, project_id } = known.value
      yield* store.revoke(theirs, "registered_by_another", now)
      yield* done(now, "mobile_device.handed_over", { project_id, actor: `mobile_device:${device_id}` }, theirs)
    }
    const { ofProject, ofSubject } = Option.getOrThrow(yield* registrations.count(by))
    if (ofSubject >= mostOfSubject || ofProject >= mostOfProject) return yield* refuse("device_limit_reached")
    yield* registrations.insert({ ...device, environment, topic }, initialPreferences, now)
    yield* done(now, "mobile_device.registered", as, device_id)
    yield* outbox.enqueue(now, {
      kind: "security.device_added",
      event_id: device_id,
      project_id: by.project_id,
      about: device_id,
      only: sql`d.subject = ${by.subject}::uuid and d.device_id <> ${device_id}::uuid`
    })
    return yield* answer(by, { device_id, created: true, replayed: false })
  })

  /** The answer that was lost. A device that has ended since is not brought back by a request from before. */
  const replay = Effect.fnUntraced(function* (
    by: Granted,
    earlier: { readonly device_id: string; readonly request_hash: Uint8Array; readonly created: boolean },
    request_hash: Uint8Array
  ) {
    if (!equal(earlier.request_hash, request_hash)) return yield* refuse("idempotency_conflict")
    const again = yield* answer(by, { ...earlier, replayed: true })
    return again.device.state === "active" ? again : yield* refuse("device_revoked")
  })

  /** The device as everybody reads it. */
  const answer = Effect.fnUntraced(function* (
    by: Granted,
    how: { readonly device_id: string; readonly created: boolean; readonly replayed: boolean }
  ) {
    const device = Option.getOrThrow(yield* store.find(by, how.device_id))
    return new Registration(Owner.answerOf(device), how.created, how.replayed)
  })

  return register
})

interface Ask {
  readonly by: Granted
  readonly asked: RegisterDevice
  readonly lookups: readonly [Uint8Array, ...ReadonlyArray<Uint8Array>]
  readonly environment: RegisterDevice["push"]["environment"]
  readonly topic: string
}

/** The last of the lookups is the one whose key changes last: a retry over a change of keys is still the same request. */
const requestHash = ({ asked, environment, lookups, topic }: Ask) => {
  const { app_version = null, locale = null, os_version = null, preferences = null } = asked
  const installation = Buffer.from(lookups.at(-1)!).toString("base64url")
  return sha256(JSON.stringify([environment, topic, installation, app_version, os_version, locale, preferences]))
}

const described = ({ asked, by, lookups }: Ask) => ({
  project_id: by.project_id,
  subject: by.subject,
  client_id: by.client_id,
  grant_id: by.grant_id,
  token_lookup: lookups[0],
  app_version: asked.app_version ?? null,
  os_version: asked.os_version ?? null,
  locale: asked.locale ?? null,
  preferences: asked.preferences ?? null
})
