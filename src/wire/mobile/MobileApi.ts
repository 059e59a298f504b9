/**
 * The contract of the mobile API: codes, shapes, the three endpoints of spec 4.12 and one that reads a device
 * (decisions.md, Reading a device). They are a local 0.0.4 proposal (spec 9.3).
 *
 * Bearer: an OAuth access token with `mobile:devices`. Only the owner who registered a device sees it, in the project
 * of that sign-in; to everybody else it does not exist. No answer carries the push token.
 *
 * A device is a phone with the app (APNs) or a browser (web push, RFC 8030).
 */
import { Schema, SchemaGetter } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { LimitedByAddress, PhoneCredential, WellFormed } from "../Headers.ts"
import { Id, IdempotencyKey, Uuid } from "../Ids.ts"
import { Instant } from "../Instant.ts"
import { environments, isTopic, Preferences } from "./Notifications.ts"
import { text } from "../Text.ts"
import { sharedTable } from "../Errors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

const table = {
  ...sharedTable,
  /** One code for devices that are unknown, in another project or of another owner. */
  device_not_found: [404, "There is no such device."],
  /** Revoked, or the app was removed. */
  device_revoked: [409, "The device is no longer registered; register it again."],
  device_limit_reached: [409, "Too many devices are registered; revoke one first."],
  /** If-Match names other versions than the current one. */
  preferences_version_conflict: [412, "The preferences were changed meanwhile; read them again."],
  push_environment_not_allowed: [400, "This service does not deliver to that push environment."],
  push_topic_not_allowed: [400, "This service does not deliver to that app."],
  push_endpoint_not_allowed: [400, "This service does not deliver to that push service."],
  /** Of web push: the subscription was made with a key of another service, or of this one before its database was lost. */
  push_key_unknown: [400, "The browser subscribed with another key; subscribe again with the current one."]
} as const

const everywhere = ["unauthorized", "insufficient_scope", "rate_limited", "bridge_persistence_error"] as const
const withBody = ["invalid_request", "payload_too_large", "unsupported_media_type"] as const

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  register: [
    ...everywhere,
    ...withBody,
    "secret_detected",
    "device_limit_reached",
    "device_revoked",
    "push_environment_not_allowed",
    "push_topic_not_allowed",
    "push_endpoint_not_allowed",
    "push_key_unknown",
    "idempotency_conflict"
  ],
  get: [...everywhere, "device_not_found"],
  setPreferences: [...everywhere, ...withBody, "device_not_found", "device_revoked", "preferences_version_conflict"],
  revoke: [...everywhere, "device_not_found"],
  test: [...everywhere, "device_not_found", "device_revoked"]
} as const satisfies Record<string, ReadonlyArray<keyof typeof table>>

type Operation = keyof typeof operationCodes
export type MobileRefusal<Of extends Operation> = RefusalOf<typeof table, (typeof operationCodes)[Of][number]>
export const { refuse, refusals, codes } = fromTable(table)

const Environment = Schema.Literals(environments)

const Topic = Schema.String.check(Schema.makeFilter(isTopic, { expected: "the bundle id of an app" }))

/** APNs does not fix the length. */
const PushToken = Schema.String.check(Schema.isPattern(/^([0-9A-Fa-f]{2}){16,128}$/)).pipe(
  Schema.annotate({ description: "16 to 128 bytes in hexadecimal" }),
  Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((digits: string) => digits.toLowerCase()),
    encode: SchemaGetter.passthrough()
  }),
  Schema.RedactedFromValue
)

/** Without `topic`: the first app that the service is configured for. */
const Apns = Schema.Struct({
  provider: Schema.Literal("apns"),
  environment: Environment,
  topic: Schema.optionalKey(Topic),
  token: PushToken
})

/** The uncompressed P-256 point, 65 bytes, in base64url as browsers write it. */
const PublicKey = Schema.String.check(Schema.isPattern(/^B[A-Za-z0-9_-]{86}$/)).annotate({
  description: "a P-256 public key, 65 bytes in base64url"
})

/** A browser's subscription, as its `toJSON` writes it. `public_key`: what the browser subscribed with, by default the current key. */
const WebPush = Schema.Struct({
  provider: Schema.Literal("webpush"),
  endpoint: Schema.String.check(Schema.isPattern(/^https:\/\/[\x21-\x7e]{1,2040}$/)).pipe(
    Schema.annotate({ description: "https address of at most 2048 ASCII characters" }),
    Schema.RedactedFromValue
  ),
  keys: Schema.Struct({
    p256dh: PublicKey,
    auth: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{22}$/)).pipe(
      Schema.annotate({ description: "16 bytes in base64url" }),
      Schema.RedactedFromValue
    )
  }),
  public_key: Schema.optionalKey(PublicKey)
})

const platforms = { apns: "ios", webpush: "web" } as const

const Registering = Schema.Struct({
  platform: Schema.Literals(["ios", "web"]),
  push: Schema.Union([Apns, WebPush]),
  app_version: Schema.optionalKey(text(64)),
  os_version: Schema.optionalKey(text(64)),
  locale: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}$/)).annotate({
      description: "language tag such as es_ES"
    })
  ),
  preferences: Schema.optionalKey(Preferences)
}).check(
  Schema.makeFilter(({ platform, push }) => platforms[push.provider] === platform, {
    expected: "apns on ios, webpush on web"
  })
)

export class RegisterDevice extends Schema.Class<RegisterDevice>("RegisterDevice")(Registering) {}

/** `token_fingerprint`: four hexadecimal digits by which a person tells installations apart; null once it has ended. */
export const Device = Schema.Struct({
  device_id: Uuid,
  state: Schema.Literals(["active", "revoked", "inactive"]),
  platform: Schema.Literals(["ios", "web"]),
  push: Schema.Union([
    Schema.Struct({
      provider: Schema.Literal("apns"),
      environment: Environment,
      topic: Schema.String,
      token_fingerprint: Schema.NullOr(Schema.String)
    }),
    Schema.Struct({
      provider: Schema.Literal("webpush"),
      endpoint_host: Schema.String,
      token_fingerprint: Schema.NullOr(Schema.String)
    })
  ]),
  preferences: Preferences,
  preferences_version: Schema.Int,
  created_at: Instant,
  last_seen_at: Instant
})
export type Device = typeof Device.Type

export const PreferencesSet = Schema.Struct({ device_id: Uuid, preferences: Preferences, version: Schema.Int })
export type PreferencesSet = typeof PreferencesSet.Type

export const DeviceRevoked = Schema.Struct({
  device_id: Uuid,
  state: Schema.Literal("revoked"),
  revoked_at: Instant
})
export type DeviceRevoked = typeof DeviceRevoked.Type

/**
 * What became of a test within a few seconds. `accepted` by the provider; the installation is `gone`; `refused` for good;
 * `retrying` after a failure; `waiting` for its turn or the end of a pause.
 */
export const testOutcomes = ["accepted", "gone", "refused", "retrying", "waiting"] as const

/** `status` and `reason` as the provider gave them; the reason may be the service's own. */
export const DeviceTested = Schema.Struct({
  device_id: Uuid,
  outcome: Schema.Literals(testOutcomes),
  status: Schema.NullOr(Schema.Int),
  reason: Schema.NullOr(Schema.String)
})
export type DeviceTested = typeof DeviceTested.Type

/** The answer to a registration: 201 for a new device, 200 if this owner had already registered the installation. */
export class Registration {
  readonly device: Device
  readonly created: boolean
  readonly replayed: boolean
  constructor(device: Device, created: boolean, replayed: boolean) {
    this.device = device
    this.created = created
    this.replayed = replayed
  }
}

/** The version of the preferences, quoted; If-Match compares it (RFC 9110 8.8.3, 13.1.1). */
export const etag = (version: number): string => `"${version}"`

const ETag = { etag: Schema.String }

const registration = (status: 201 | 200) =>
  Schema.declare((u: unknown): u is Registration => u instanceof Registration && u.created === (status === 201)).pipe(
    HttpApiSchema.encodeToWithHeaders(
      {
        body: Device.annotate({ httpApiStatus: status }),
        headers: { ...ETag, "idempotency-replayed": Schema.optional(Schema.Literal("true")) }
      },
      {
        decode: ({ body, headers }) =>
          new Registration(body, status === 201, headers["idempotency-replayed"] !== undefined),
        encode: ({ device, replayed }) => ({
          body: device,
          headers: {
            etag: etag(device.preferences_version),
            "idempotency-replayed": replayed ? ("true" as const) : undefined
          }
        })
      }
    )
  )

const register = HttpApiEndpoint.post("register", "/devices", {
  headers: { "idempotency-key": Schema.optionalKey(IdempotencyKey) },
  payload: RegisterDevice,
  success: [registration(201), registration(200)],
  error: refusals(...operationCodes.register)
})
  .annotate(OpenApi.Summary, "Registers this installation of the app for notifications, or renews it.")
  .annotate(
    OpenApi.Description,
    "An app calls it at every start, and whenever its push token has changed: 201 for a new device, 200 for a renewed one. The answer never carries the push token."
  )

const get = HttpApiEndpoint.get("get", "/devices/:id", {
  params: { id: Id },
  success: HttpApiSchema.WithHeaders(Device, ETag),
  error: refusals(...operationCodes.get)
})
  .annotate(OpenApi.Summary, "Says what is known of a device of this person.")
  .annotate(OpenApi.Description, "Answers even after the device has ended. The ETag is the version of the preferences.")

const setPreferences = HttpApiEndpoint.put("setPreferences", "/devices/:id/preferences", {
  params: { id: Id },
  headers: { "if-match": Schema.optionalKey(Schema.String.annotate({ description: "the ETag that was read" })) },
  payload: Preferences,
  success: HttpApiSchema.WithHeaders(PreferencesSet, ETag),
  error: refusals(...operationCodes.setPreferences)
})
  .annotate(OpenApi.Summary, "Replaces what this device wants to hear, at the version that If-Match names.")
  .annotate(
    OpenApi.Description,
    "The body is all of the preferences. With If-Match a concurrent change is refused as preferences_version_conflict; without it the last write wins."
  )

const revoke = HttpApiEndpoint.post("revoke", "/devices/:id/revoke", {
  params: { id: Id },
  success: DeviceRevoked,
  error: refusals(...operationCodes.revoke)
})
  .annotate(OpenApi.Summary, "Ends the device and forgets its push token: the first step of signing out.")
  .annotate(
    OpenApi.Description,
    "Notifications that wait for the device are suppressed in the same transaction, and a repeated request gets the same answer. End the sign-in itself only afterwards, at /revoke."
  )

const test = HttpApiEndpoint.post("test", "/devices/:id/test", {
  params: { id: Id },
  success: DeviceTested,
  error: refusals(...operationCodes.test)
})
  .annotate(OpenApi.Summary, "Rings this device, and says what happened at its provider.")
  .annotate(
    OpenApi.Description,
    "Waits up to eight seconds for the provider. accepted means that the provider took it; whether the device showed it is unknown."
  )

export class MobileApi extends HttpApiGroup.make("mobile")
  .add(register, get, setPreferences, revoke, test)
  .middleware(WellFormed)
  .middleware(PhoneCredential)
  .prefix("/bridge/v1/mobile")
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" }) {}

/** Public: browsers subscribe with it before anybody signs in. */
export const webPushKeyCodes = ["rate_limited", "bridge_persistence_error"] as const

const webPushKey = HttpApiEndpoint.get("webPushKey", "/web-push-key", {
  success: Schema.Struct({ public_key: PublicKey }),
  error: refusals(...webPushKeyCodes)
})
  .annotate(OpenApi.Summary, "The key with which a browser subscribes (applicationServerKey).")
  .annotate(
    OpenApi.Description,
    "Needs no bearer. After the operator has rotated the key it is another one; earlier subscriptions keep working."
  )

export class WebPushApi extends HttpApiGroup.make("web_push")
  .add(webPushKey)
  .middleware(LimitedByAddress)
  .prefix("/bridge/v1/mobile") {}
