/** The provider token: the credential at APNs, a JWT (ES256) with team and time, signed with the operator's key. */
import { Effect, Redacted } from "effect"
import { createPrivateKey, type KeyObject } from "node:crypto"
import { readFileSync } from "node:fs"
import { signToken } from "../../../platform/crypto/P256.ts"
import { ConfigurationError } from "../../../platform/settings/Settings.ts"

export interface ProviderToken {
  readonly jwt: Redacted.Redacted<string>
  readonly issuedAt: Date
}

export interface Signer {
  readonly teamId: string
  readonly keyId: string
  readonly key: KeyObject
}

/** In milliseconds: APNs refuses tokens older than an hour, and more than one new token in twenty minutes. */
export const renewAfter = 45 * 60_000
export const renewNotBefore = 20 * 60_000

export const providerToken = ({ key, keyId, teamId }: Signer, now: Date): ProviderToken => {
  const iat = Math.floor(now.getTime() / 1000)
  return { jwt: Redacted.make(signToken({ kid: keyId }, { iss: teamId, iat }, key)), issuedAt: now }
}

/** SERVICE_APNS_KEY_FILE: the .p8 file of the developer account. */
export const readKey = (file: string) =>
  Effect.try({
    try: () => {
      const key = createPrivateKey(readFileSync(file))
      if (key.asymmetricKeyDetails?.namedCurve !== "prime256v1") throw new Error("not a P-256 key")
      return key
    },
    catch: () =>
      new ConfigurationError({ message: `SERVICE_APNS_KEY_FILE: ${file} holds no readable P-256 key (.p8).` })
  })
