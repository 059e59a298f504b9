/**
 * The companion on a phone without its screen (spec 4.13): what an app does, and what a test does in its place.
 *
 *     signed_out -> signed_in -> registered -> signing_out -> signed_out
 *
 * 1. Sign-in is OAuthClient's: the system's browser, PKCE, a state that is checked before the code is exchanged.
 * 2. Tokens and the local device id are kept in the secure store and nowhere else. The push token is only passed on.
 * 3. Sign-out revokes the device at the server first, then ends the sign-in, then forgets device id and tokens in one
 *    write. While the server cannot be told nothing is forgotten and nothing else is done: it is asked again.
 */
import { Data, Duration, Effect, Option, Predicate, type Redacted, Semaphore } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { randomUUID } from "node:crypto"
import { Api } from "../wire/Api.ts"
import { type Device, RegisterDevice } from "../wire/mobile/MobileApi.ts"
import type { Environment, Preferences } from "../wire/mobile/Notifications.ts"
import { Refusal } from "../wire/Refusal.ts"
import { ServiceUnreachable } from "./Errors.ts"
import * as OAuthClient from "./OAuthClient.ts"

/** What the secure store holds: all of it is written at once. */
export interface Kept {
  readonly tokens: OAuthClient.Tokens | undefined
  readonly device: { readonly device_id: string; readonly version: number } | undefined
  /** Of a registration whose answer has not come yet. */
  readonly registration: string | undefined
  readonly signing_out: boolean
}

export const nothing: Kept = { tokens: undefined, device: undefined, registration: undefined, signing_out: false }

export interface SecureStore<E> {
  readonly load: Effect.Effect<Kept, E>
  readonly save: (kept: Kept) => Effect.Effect<void, E>
}

export type State = "signed_out" | "signed_in" | "registered" | "signing_out"

/** A sign-out has begun and the server does not know yet; call `signOut` again. */
export class SigningOut extends Data.TaggedError("SigningOut")<{ readonly message: string }> {}

/** No device is registered. */
export class NotRegistered extends Data.TaggedError("NotRegistered")<{ readonly message: string }> {}

export interface Options<E> {
  readonly base_url: string
  readonly client_id: string
  readonly redirect_uri: string
  /** A constant of the build: production in releases, development in debug builds. */
  readonly environment: Environment
  readonly app_version: string
  readonly browser: (authorize: URL) => Effect.Effect<URL, E>
  readonly store: SecureStore<E>
}

export const make = Effect.fnUntraced(function* <E>({ store, ...options }: Options<E>) {
  const http = yield* HttpClient.HttpClient
  const one = yield* Semaphore.make(1)
  /** One at a time: a refresh that is kept meanwhile must not be written over with the tokens from before it. */
  const update = (change: (kept: Kept) => Kept) =>
    one.withPermit(Effect.flatMap(store.load, (kept) => store.save(change(kept))))
  const forget = update(() => nothing)

  const oauth = yield* OAuthClient.make({
    resource: `${options.base_url}/mcp`,
    client_id: options.client_id,
    redirect_uri: options.redirect_uri,
    scopes: ["mobile:devices"],
    browser: options.browser,
    keep: {
      load: Effect.map(store.load, ({ tokens }) => Option.fromUndefinedOr(tokens)),
      // Without tokens there is no device either: both go in one write.
      save: Option.match({
        onNone: () => forget,
        onSome: (tokens) => update((kept) => ({ ...kept, tokens }))
      })
    },
    // Four fifths of a life of fifteen minutes.
    leeway: Duration.minutes(3)
  })

  const devices = (bearer: Redacted.Redacted<string>) =>
    HttpApiClient.group(Api, {
      group: "mobile",
      baseUrl: options.base_url,
      httpClient: HttpClient.mapRequest(http, HttpClientRequest.bearerToken(bearer))
    })
  type Mobile = Effect.Success<ReturnType<typeof devices>>

  /** With the access token; one that is refused before its time is refreshed once. */
  const call = <A, F, R>(ask: (mobile: Mobile) => Effect.Effect<A, F, R>) => {
    const once = Effect.gen(function* () {
      const mobile = yield* devices(yield* oauth.accessToken)
      return yield* ask(mobile).pipe(
        Effect.timeout("10 seconds"),
        Effect.mapError((error) => (error instanceof Refusal ? (error as Extract<F, Refusal>) : unanswered)),
        // A redirect could carry the token elsewhere.
        Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
      )
    })
    const refused = update((kept) => ({ ...kept, tokens: kept.tokens && { ...kept.tokens, expires_at: 0 } }))
    return Effect.catchIf(
      once,
      (error) => error instanceof Refusal && error._tag === "unauthorized",
      () => Effect.andThen(refused, once)
    )
  }

  const state = Effect.map(store.load, ({ device, signing_out, tokens }): State => {
    if (signing_out) return "signing_out"
    if (tokens === undefined) return "signed_out"
    return device === undefined ? "signed_in" : "registered"
  })

  const unlessSigningOut = Effect.flatMap(store.load, (kept) =>
    kept.signing_out ? new SigningOut({ message: "Finishing sign-out." }) : Effect.succeed(kept)
  )

  const signIn = Effect.asVoid(Effect.andThen(unlessSigningOut, oauth.signIn))

  const enter = Effect.fnUntraced(function* (token: Redacted.Redacted<string>) {
    const kept = yield* unlessSigningOut
    const key = kept.registration ?? `mobile-register-${randomUUID()}`
    if (kept.registration === undefined) yield* update((now) => ({ ...now, registration: key }))
    const payload = new RegisterDevice({
      platform: "ios",
      push: { provider: "apns", environment: options.environment, token },
      app_version: options.app_version
    })
    // Without an answer the same request is sent again under the same key; a refusal is the end of it.
    return yield* call((mobile) => mobile.register({ headers: { "idempotency-key": key }, payload })).pipe(
      Effect.map(({ device }) => device),
      Effect.tapError((error) =>
        error instanceof Refusal ? update((now) => ({ ...now, registration: undefined })) : Effect.void
      )
    )
  })

  /** To the service another push token is another device: it is given what the one before wanted, and that one ends. */
  const replace = Effect.fnUntraced(function* (before: string, device: Device) {
    const { body } = yield* call((mobile) => mobile.get({ params: { id: before } }))
    const headers = { "if-match": `"${device.preferences_version}"` }
    const set = yield* call((mobile) =>
      mobile.setPreferences({ params: { id: device.device_id }, headers, payload: body.preferences })
    )
    yield* call((mobile) => mobile.revoke({ params: { id: before } }))
    return { ...device, preferences: set.body.preferences, preferences_version: set.body.version }
  })

  /** Whenever the system hands out a push token, after an update of the app, and every week. */
  const register = Effect.fn("Companion.register")(function* (token: Redacted.Redacted<string>) {
    const { device: before } = yield* store.load
    // The request without an answer was for another push token.
    const entered = yield* Effect.catchTag(enter(token), "idempotency_conflict", () => enter(token))
    const device =
      before === undefined || before.device_id === entered.device_id
        ? entered
        : yield* Effect.catchTag(replace(before.device_id, entered), "device_not_found", () => Effect.succeed(entered))
    const { device_id, preferences, preferences_version: version } = device
    yield* update((now) => ({ ...now, device: { device_id, version }, registration: undefined }))
    return preferences
  })

  const registered = Effect.flatMap(unlessSigningOut, ({ device }) =>
    device === undefined ? new NotRegistered({ message: "No device is registered." }) : Effect.succeed(device)
  )

  /** Changes what it was shown, or says `preferences_version_conflict`: then read `preferences` and decide again. */
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

  /** May be called again until it succeeds, also after a restart. */
  const signOut = Effect.gen(function* () {
    const { device, tokens } = yield* store.load
    if (tokens === undefined) return yield* forget
    yield* update((now) => ({ ...now, signing_out: true }))
    if (device !== undefined) {
      yield* call((mobile) => mobile.revoke({ params: { id: device.device_id } })).pipe(
        // Unknown, or a sign-in that has ended and took its devices along: there is nothing left to revoke.
        Effect.catchIf(
          (error) => isTagged(error) && over.includes(error._tag),
          () => Effect.void
        )
      )
    }
    yield* oauth.signOut
    yield* forget
  }).pipe(Effect.withSpan("Companion.signOut"))

  /** What a screen may show. Nothing here is a secret. */
  const screen = Effect.map(Effect.all([state, store.load]), ([state, { device }]) =>
    state === "registered" ? [state, `device ${device!.device_id}`, `${options.environment} notifications`] : [state]
  )

  return { state, signIn, register, preferences, setPreferences, signOut, screen }
})

const over: ReadonlyArray<unknown> = ["device_not_found", "unauthorized", "SignInRequired"]
const isTagged = Predicate.hasProperty("_tag")

const unanswered = new ServiceUnreachable({ message: "The service did not answer.", passing: true })
