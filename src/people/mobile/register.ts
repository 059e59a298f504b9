/**
 * Registers an installation of the app, or a browser (spec 4.12).
 *
 * 1. The request is checked, and its push token is turned into the hashes that find the installation.
 * 2. Under a lock on the project: a repeated Idempotency-Key gets the earlier answer.
 * 3. An installation that this owner had registered is the same device, renewed. Otherwise a new device is inserted, and
 *    a device of another owner with the same installation ends.
 */
import { Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../platform/settings/Settings.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { secretIn } from "../../platform/secrets/Guard.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { areKeys, asToken, isAllowedEndpoint } from "../../push/Subscription.ts"
import { type Installation, PushTokens } from "../../push/tokens/PushTokens.ts"
import { WebPushKeys } from "../../push/tokens/WebPushKeys.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { initialPreferences } from "../../wire/mobile/Notifications.ts"
import { type RegisterDevice, Registration, refuse } from "../../wire/mobile/MobileApi.ts"
import * as AnyDeviceStore from "../AnyDeviceStore.ts"
import * as Owner from "./Owner.ts"
import * as RegistrationStore from "./RegistrationStore.ts"
import * as SetPreferences from "./setPreferences.ts"
import * as Store from "./DeviceStore.ts"

/** Limits on active devices. */
const maxPerSubject = 20
const maxPerProject = 50
/** The default topic when notifications go to the log. */
const logTopic = "local.bridge-service"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const tokens = yield* PushTokens
  const outbox = yield* Outbox
  const webPushKeys = yield* WebPushKeys
  const { push } = yield* Settings
  const { auditDevice } = yield* Owner.make
  const { checkPause, releaseHeld } = yield* SetPreferences.make
  const registrations = RegistrationStore.make(sql)
  const store = Store.make(sql)
  const devices = AnyDeviceStore.make(sql)

  const register = Effect.fn("Devices.register")(function* (
    owner: Actor,
    request: RegisterDevice,
    key: string | undefined
  ) {
    const now = yield* clock.now
    yield* checkPause(request.preferences, now)
    // Versions are stored and shown to the operator, so they must not contain a token that was put there by mistake.
    const { app_version, os_version } = request
    const secret = yield* secretIn({ app_version, os_version }, now)
    if (secret !== undefined) return yield* secret
    const target = yield* request.push.provider === "apns" ? appOf(request.push) : browserOf(request.push)
    const checked = { owner, request, target, lookups: tokens.lookups(target) }
    const retry = key === undefined ? undefined : { key_hash: sha256(key), request_hash: requestHash(checked) }

    const attempt = Effect.gen(function* () {
      yield* registrations.lockProject(owner.project_id)
      if (retry === undefined) return yield* renewOrInsert(checked, now)
      const earlier = yield* registrations.findRegistration(owner, retry.key_hash)
      if (Option.isSome(earlier)) return yield* replay(owner, earlier.value, retry.request_hash)
      const registration = yield* renewOrInsert(checked, now)
      const { created, device } = registration
      yield* registrations.insertRegistration(owner, { ...retry, device_id: device.device_id, created }, now)
      return registration
    }).pipe(
      sql.withTransaction,
      Effect.asSome,
      // Two projects registered the installation at once: the index admits one, and the other then takes it over.
      Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeedNone)
    )
    return yield* untilSettled(attempt)
  }, persistence)

  const appOf = Effect.fnUntraced(function* ({ environment, token, topic }: App) {
    if (!push.environments.includes(environment)) return yield* refuse("push_environment_not_allowed")
    return { provider: "apns", environment, topic: yield* topicOf(topic), token, web_push_key_id: null } as const
  })

  /** The APNs key must be valid for the topic, the app's bundle id. Without APNs, any topic is accepted. */
  const topicOf = Effect.fnUntraced(function* (topic: string | undefined) {
    const chosen = topic ?? push.topics[0] ?? logTopic
    const isAllowed = push.apns === undefined || push.topics.includes(chosen)
    return isAllowed ? chosen : yield* refuse("push_topic_not_allowed")
  })

  /** The token is the whole subscription: each of its parts is needed to ring the browser. */
  const browserOf = Effect.fnUntraced(function* ({ endpoint, keys, public_key }: Browser) {
    const address = Redacted.value(endpoint)
    if (!isAllowedEndpoint(address, push.webPushHosts)) return yield* refuse("push_endpoint_not_allowed")
    const subscribed = { p256dh: keys.p256dh, auth: Redacted.value(keys.auth) }
    if (!areKeys(subscribed)) return yield* refuse("invalid_request")
    const key = public_key === undefined ? Option.some(yield* webPushKeys.current) : yield* webPushKeys.find(public_key)
    if (Option.isNone(key)) return yield* refuse("push_key_unknown")
    return {
      provider: "webpush",
      environment: "web",
      topic: new URL(address).host,
      token: asToken({ endpoint: address, keys: subscribed, public_key: key.value.public_key }),
      web_push_key_id: key.value.web_push_key_id
    } as const
  })

  /** Renews the device of this owner's installation, or inserts a new one. */
  const renewOrInsert = Effect.fnUntraced(function* (checked: Checked, now: Date) {
    const { lookups, owner, request, target } = checked
    const { environment, provider, topic } = target
    const known = yield* registrations.lockInstallation(lookups)
    const mine = Option.filter(known, (device) => Owner.owns(owner, device))
    const device_id = Option.isSome(mine) ? mine.value.device_id : yield* uuidAt(now)
    const device = { ...columnsOf(checked), ...(yield* tokens.seal(target.token, device_id)), device_id }
    const by = { project_id: owner.project_id, actor: actorName(owner) }
    if (Option.isSome(mine)) {
      yield* registrations.renew(device, now)
      if (request.preferences !== undefined) yield* releaseHeld(device_id, now)
      yield* auditDevice(now, "mobile_device.renewed", by, device_id)
      return yield* answer(owner, { device_id, created: false, replayed: false })
    }
    if (Option.isSome(known)) {
      const { device_id: theirs, project_id } = known.value
      yield* devices.revoke(theirs, "registered_by_another", now)
      yield* auditDevice(now, "mobile_device.handed_over", { project_id, actor: `mobile_device:${device_id}` }, theirs)
    }
    const { ofProject, ofSubject } = Option.getOrThrow(yield* registrations.count(owner))
    if (ofSubject >= maxPerSubject || ofProject >= maxPerProject) return yield* refuse("device_limit_reached")
    yield* registrations.insert({ ...device, provider, environment, topic }, initialPreferences, now)
    yield* auditDevice(now, "mobile_device.registered", by, device_id)
    yield* outbox.enqueue(now, {
      kind: "security.device_added",
      event_id: device_id,
      project_id: owner.project_id,
      about: device_id,
      only: sql`d.subject = ${owner.subject}::uuid and d.device_id <> ${device_id}::uuid`
    })
    return yield* answer(owner, { device_id, created: true, replayed: false })
  })

  /** Repeats the earlier answer. A device that has ended since then is not registered again by an old request. */
  const replay = Effect.fnUntraced(function* (
    owner: Actor,
    earlier: { readonly device_id: string; readonly request_hash: Uint8Array; readonly created: boolean },
    request_hash: Uint8Array
  ) {
    if (!equal(earlier.request_hash, request_hash)) return yield* refuse("idempotency_conflict")
    const again = yield* answer(owner, { ...earlier, replayed: true })
    return again.device.state === "active" ? again : yield* refuse("device_revoked")
  })

  const answer = Effect.fnUntraced(function* (
    owner: Actor,
    result: { readonly device_id: string; readonly created: boolean; readonly replayed: boolean }
  ) {
    const device = Option.getOrThrow(yield* store.find(owner, result.device_id))
    return new Registration(Owner.answerOf(device), result.created, result.replayed)
  })

  return register
})

/** A request after its checks. */
interface Checked {
  readonly owner: Actor
  readonly request: RegisterDevice
  readonly target: Installation & { readonly web_push_key_id: string | null }
  readonly lookups: readonly [Uint8Array, ...ReadonlyArray<Uint8Array>]
}

type App = Extract<RegisterDevice["push"], { readonly provider: "apns" }>
type Browser = Extract<RegisterDevice["push"], { readonly provider: "webpush" }>

/** Uses the last lookup hash, whose key is the last to change, so that a retry after a key change has the same hash. */
const requestHash = ({ lookups, request, target: { environment, topic } }: Checked) => {
  const { app_version = null, locale = null, os_version = null, preferences = null } = request
  const installation = Buffer.from(lookups.at(-1)!).toString("base64url")
  return sha256(JSON.stringify([environment, topic, installation, app_version, os_version, locale, preferences]))
}

const columnsOf = ({ lookups, owner, request, target }: Checked) => ({
  project_id: owner.project_id,
  subject: owner.subject,
  client_id: owner.client_id,
  grant_id: owner.grant_id,
  web_push_key_id: target.web_push_key_id,
  token_lookup: lookups[0],
  app_version: request.app_version ?? null,
  os_version: request.os_version ?? null,
  locale: request.locale ?? null,
  preferences: request.preferences ?? null
})
