/**
 * Push tokens at rest (spec 2.9): sealed, bound to the row of their device, and found by a keyed hash, so that a stolen
 * database cannot notify a phone. This is the only place that seals or opens them.
 *
 * The keys are those of tokenKeys.ts; hashes are made with SERVICE_PUSH_LOOKUP_KEY, or the Bridge token secret. The first
 * key seals; all others still open and find existing tokens until `rekey-push-tokens` has run.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { Settings } from "../../platform/settings/Settings.ts"
import { KeyRing } from "../../platform/crypto/Derivation.ts"
import { SealingRing } from "../../platform/crypto/Sealed.ts"
import { channelKinds, ofToken as ofChannelToken } from "../Channel.ts"
import { ofToken } from "../Subscription.ts"
import { tokenKeys } from "./tokenKeys.ts"

export interface SealedToken {
  readonly token_key_id: string
  /** Nonce, ciphertext, tag. */
  readonly token_sealed: Uint8Array
}

export const providers = ["apns", "webpush", ...channelKinds] as const
export type Provider = (typeof providers)[number]

export interface Installation {
  readonly provider: Provider
  readonly environment: string
  readonly topic: string
  readonly token: Redacted.Redacted<string>
}

export class PushTokens extends Context.Service<
  PushTokens,
  {
    /** The id of the key that seals. */
    readonly currentKey: string
    readonly knows: (keyId: string) => boolean
    readonly seal: (token: Redacted.Redacted<string>, device_id: string) => Effect.Effect<SealedToken>
    /** None if the key is not configured, or the token was sealed for another device. */
    readonly open: (sealed: SealedToken, device_id: string) => Option.Option<Redacted.Redacted<string>>
    /** Hashes that find the installation, 32 bytes each: the hash to store, then the hashes under earlier keys. */
    readonly lookups: (installation: Installation) => readonly [Uint8Array, ...Array<Uint8Array>]
    /** A pseudonym of the text: 32 URL-safe characters, meaningless without the key. */
    readonly alias: (text: string) => string
  }
>()("service/push/PushTokens") {
  static readonly layer = Layer.effect(
    PushTokens,
    Effect.gen(function* () {
      const settings = yield* Settings
      const { bridge, push } = settings
      const secrets = [bridge.tokenSecret, ...present(bridge.tokenSecretPrevious)]
      const ring = SealingRing.make({ purpose: "push-token", keys: tokenKeys(settings) })

      const [current, ...earlier] = [...present(push.lookupKey), ...present(push.lookupKeyPrevious), ...secrets].map(
        (secret) => KeyRing.make({ purpose: "mobile/v1/push-lookup", current: secret, previous: Option.none() }).current
      )

      return {
        currentKey: ring.current,
        knows: ring.knows,
        seal: (token, device_id) =>
          Effect.map(ring.seal(token, device_id), ({ ciphertext, key_id, nonce }) => ({
            token_key_id: key_id,
            token_sealed: Buffer.concat([nonce, ciphertext])
          })),
        open: ({ token_key_id, token_sealed }, device_id) =>
          ring.open(
            { key_id: token_key_id, nonce: token_sealed.subarray(0, 12), ciphertext: token_sealed.subarray(12) },
            device_id
          ),
        lookups: ({ environment, provider, token, topic }) => {
          const fields = [provider, environment, topic, identityOf(provider, token)]
          return [current!.derive("token", fields), ...earlier.map((key) => key.derive("token", fields))]
        },
        alias: (text) => Buffer.from(current!.derive("alias", [text]).subarray(0, 24)).toString("base64url")
      }
    })
  )
}

/** A browser may change the keys of its subscription, a channel its secret; the endpoint and the id stay. */
const identityOf = (provider: Provider, token: Redacted.Redacted<string>) => {
  if (provider === "apns") return token
  return Redacted.make(provider === "webpush" ? ofToken(token).endpoint : ofChannelToken(token).id)
}

const present = <A>(value: A | undefined): ReadonlyArray<A> => (value === undefined ? [] : [value])
