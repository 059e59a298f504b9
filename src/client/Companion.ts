/**
 * The phone companion without its screen (spec 4.13): a model for an app, and its stand-in for tests.
 *
 *     signed_out -> signed_in -> registered -> signing_out -> signed_out
 *
 * 1. OAuthClient signs in: system browser, PKCE, and a state that is checked before the code is exchanged.
 * 2. The tokens are bound to a key of the app, which it proves with each request.
 * 3. Tokens and the local device id are kept in the secure store and nowhere else. The push token is never stored.
 * 4. Sign-out revokes the device at the server first, then the grant, then deletes device id and tokens in one write.
 *    While the server is unreachable nothing is deleted and every other operation fails: call sign-out again.
 */
import { Data, Duration, Effect, Option, Predicate, type Redacted, Semaphore } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { randomUUID } from "node:crypto"
import { Api } from "../wire/Api.ts"
import { type Device, RegisterDevice } from "../wire/mobile/MobileApi.ts"
import type { Environment, Preferences } from "../wire/mobile/Notifications.ts"
import { Refusal } from "../wire/Refusal.ts"
import type { KeyPair } from "./Crypto.ts"
import { ServiceUnreachable } from "./Errors.ts"
import * as OAuthClient from "./OAuthClient.ts"

/** The contents of the secure store, always written as a whole. */
export interface Stored {
  readonly tokens: OAuthClient.Tokens | undefined
  readonly device: { readonly device_id: string; readonly version: number } | undefined
  /** The Idempotency-Key of a registration that has no answer yet. */
  readonly registration: string | undefined
  readonly signing_out: boolean
}

export const nothing: Stored = { tokens: undefined, device: undefined, registration: undefined, signing_out: false }

export interface SecureStore<E> {
  readonly load: Effect.Effect<Stored, E>
  readonly save: (stored: Stored) => Effect.Effect<void, E>
}

export type State = "signed_out" | "signed_in" | "registered" | "signing_out"

/** A sign-out has begun but has not reached the server; call `signOut` again. */
export class SigningOut extends Data.TaggedError("SigningOut")<{ readonly message: string }> {}

/** The store holds no device. */
export class NotRegistered extends Data.TaggedError("NotRegistered")<{ readonly message: string }> {}

export interface Options<E> {
  readonly base_url: string
  readonly client_id: string
  readonly redirect_uri: string
  /** Fixed at build time: production in release builds, development in debug builds. */
  readonly environment: Environment
  readonly app_version: string
  /** The app's own key, in the device's key store; its tokens are worthless without it (RFC 9449). */
  readonly keys: Effect.Effect<KeyPair, E>
  readonly browser: (authorize: URL) => Effect.Effect<URL, E>
  readonly store: SecureStore<E>
}

export const make = Effect.fnUntraced(function* <E>({ store, ...options }: Options<E>) {
  const http = yield* HttpClient.HttpClient
  const lock = yield* Semaphore.make(1)
  /** One update at a time: otherwise it could overwrite tokens that a concurrent refresh has just stored. */
  const update = (change: (stored: Stored) => Stored) =>
    lock.withPermit(Effect.flatMap(store.load, (stored) => store.save(change(stored))))
  const forget = update(() => nothing)

  const oauth = yield* OAuthClient.make({
    resource: `${options.base_url}/mcp`,
    client_id: options.client_id,
    redirect_uri: options.redirect_uri,
    scopes: ["mobile:devices"],
    keys: options.keys,
    browser: options.browser,
    storage: {
      load: Effect.map(store.load, ({ tokens }) => Option.fromUndefinedOr(tokens)),
      // A device needs a sign-in: without tokens, the device id goes in the same write.
      save: Option.match({
        onNone: () => forget,
        onSome: (tokens) => update((stored) => ({ ...stored, tokens }))
      })
    },
    // Refresh after four fifths of the fifteen minutes that an access token lives.
    leeway: Duration.minutes(3)
  })

  const devices = Effect.flatMap(oauth.authorize, (authorize) =>
    HttpApiClient.group(Api, {
      group: "mobile",
      // A proof names the whole address.
      httpClient: HttpClient.mapRequestEffect(http, (request) =>
        authorize(HttpClientRequest.prependUrl(request, options.base_url))
      )
    })
  )
  type Mobile = Effect.Success<typeof devices>

  /** Calls with the access token. If it is refused before its expiry, refreshes it and tries once more. */
  const call = <A, F, R>(request: (mobile: Mobile) => Effect.Effect<A, F, R>) => {
    const once = Effect.gen(function* () {
      const mobile = yield* devices
      return yield* request(mobile).pipe(
        Effect.timeout("10 seconds"),
        Effect.mapError((error) => (error instanceof Refusal ? (error as Extract<F, Refusal>) : unanswered)),
        // Following a redirect could send the token to another host.
        Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
      )
    })
    const expireToken = update((stored) => ({
      ...stored,
      tokens: stored.tokens && { ...stored.tokens, expires_at: 0 }
    }))
    return Effect.catchIf(
      once,
      (error) => error instanceof Refusal && error._tag === "unauthorized",
      () => Effect.andThen(expireToken, once)
    )
  }

  const state = Effect.map(store.load, ({ device, signing_out, tokens }): State => {
    if (signing_out) return "signing_out"
    if (tokens === undefined) return "signed_out"
    return device === undefined ? "signed_in" : "registered"
  })

  const unlessSigningOut = Effect.flatMap(store.load, (stored) =>
    stored.signing_out
      ? new SigningOut({ message: "A sign-out is under way; finish it first." })
      : Effect.succeed(stored)
  )

  const signIn = Effect.asVoid(Effect.andThen(unlessSigningOut, oauth.signIn))

  const registerOnce = Effect.fnUntraced(function* (token: Redacted.Redacted<string>) {
    const stored = yield* unlessSigningOut
    const key = stored.registration ?? `mobile-register-${randomUUID()}`
    if (stored.registration === undefined) yield* update((now) => ({ ...now, registration: key }))
    const payload = new RegisterDevice({
      platform: "ios",
      push: { provider: "apns", environment: options.environment, token },
      app_version: options.app_version
    })
    // After no answer the next call repeats the request with the same key; after a refusal it uses a new one.
    return yield* call((mobile) => mobile.register({ headers: { "idempotency-key": key }, payload })).pipe(
      Effect.map(({ device }) => device),
      Effect.tapError((error) =>
        error instanceof Refusal ? update((now) => ({ ...now, registration: undefined })) : Effect.void
      )
    )
  })

  /** The service treats a new push token as a new device: copy the old device's preferences to it and revoke the old one. */
  const replace = Effect.fnUntraced(function* (before: string, device: Device) {
    const { body } = yield* call((mobile) => mobile.get({ params: { id: before } }))
    const headers = { "if-match": `"${device.preferences_version}"` }
    const set = yield* call((mobile) =>
      mobile.setPreferences({ params: { id: device.device_id }, headers, payload: body.preferences })
    )
    yield* call((mobile) => mobile.revoke({ params: { id: before } }))
    return { ...device, preferences: set.body.preferences, preferences_version: set.body.version }
  })

  /** Call it when the system hands out a push token, after an app update, and once a week. */
  const register = Effect.fn("Companion.register")(function* (token: Redacted.Redacted<string>) {
    const { device: before } = yield* store.load
    // On this code the stored Idempotency-Key belongs to a lost registration of an older push token. It is deleted with the
    // refusal, so the second try uses a new key.
    const latest = yield* Effect.catchTag(registerOnce(token), "idempotency_conflict", () => registerOnce(token))
    const device =
      before === undefined || before.device_id === latest.device_id
        ? latest
        : yield* Effect.catchTag(replace(before.device_id, latest), "device_not_found", () => Effect.succeed(latest))
    const { device_id, preferences, preferences_version: version } = device
    yield* update((now) => ({ ...now, device: { device_id, version }, registration: undefined }))
    return preferences
  })

  const registered = Effect.flatMap(unlessSigningOut, ({ device }) =>
    device === undefined ? new NotRegistered({ message: "No device is registered." }) : Effect.succeed(device)
  )

  /** Fails with `preferences_version_conflict` if they changed since they were read: read `preferences` again first. */
  const setPreferences = Effect.fn("Companion.setPreferences")(function* (payload: Preferences) {
    const { device_id, version } = yield* registered
    const { body } = yield* call((mobile) =>
      mobile.setPreferences({ params: { id: device_id }, headers: { "if-match": `"${version}"` }, payload })
    )
    yield* update((now) => ({ ...now, device: { device_id, version: body.version } }))
  })

  const preferences = Effect.gen(function* () {
    const { device_id } = yield* registered
    const { body } = yield* call((mobile) => mobile.get({ params: { id: device_id } }))
    yield* update((now) => ({ ...now, device: { device_id, version: body.preferences_version } }))
    return body.preferences
  })

  /** Can be repeated until it succeeds, also after a restart. */
  const signOut = Effect.gen(function* () {
    const { device, tokens } = yield* store.load
    if (tokens === undefined) return yield* forget
    yield* update((now) => ({ ...now, signing_out: true }))
    if (device !== undefined) {
      yield* call((mobile) => mobile.revoke({ params: { id: device.device_id } })).pipe(
        // The device is gone, or the sign-in has ended and its devices with it: nothing is left to revoke.
        Effect.catchIf(
          (error) => isTagged(error) && alreadyEnded.includes(error._tag),
          () => Effect.void
        )
      )
    }
    yield* oauth.signOut
    yield* forget
  }).pipe(Effect.withSpan("Companion.signOut"))

  /** The lines that a screen may show; none holds a secret (spec 4.13). */
  const screen = Effect.map(Effect.all([state, store.load]), ([state, { device }]) =>
    state === "registered" ? [state, `device ${device!.device_id}`, `${options.environment} notifications`] : [state]
  )

  return { state, signIn, register, preferences, setPreferences, signOut, screen }
})

const alreadyEnded: ReadonlyArray<unknown> = ["device_not_found", "unauthorized", "SignInRequired"]
const isTagged = Predicate.hasProperty("_tag")

const unanswered = new ServiceUnreachable({ message: "The service did not answer.", transient: true })
