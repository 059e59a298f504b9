/**
 * Challenge nonces and Bridge tokens are derived from server secrets and never stored (platform/crypto/Derivation.ts), so
 * that an exact retry receives the same secret again (spec 3.4).
 *
 * A retry derives the secret a second time and compares it with the stored hash of the first. If they differ, the server
 * secret of the first answer is no longer configured and the retry fails: a new secret would be a second, different
 * answer to one request.
 */
import { Effect, Option, type Redacted } from "effect"
import { type Field, KeyRing } from "../../platform/crypto/Derivation.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { underivable } from "../../platform/database/Persistence.ts"
import type { Settings } from "../../platform/settings/Settings.ts"

type BridgeSettings = Settings["Service"]["bridge"]

export const nonceRing = ({ enrollmentSecret, enrollmentSecretPrevious }: BridgeSettings) =>
  KeyRing.make({
    purpose: "bridge/v1/challenge-nonce",
    current: enrollmentSecret,
    previous: Option.fromUndefinedOr(enrollmentSecretPrevious)
  })

export const tokenRing = ({ tokenSecret, tokenSecretPrevious }: BridgeSettings) =>
  KeyRing.make({
    purpose: "bridge/v1/access-token",
    current: tokenSecret,
    previous: Option.fromUndefinedOr(tokenSecretPrevious)
  })

/** The stored record of a derived secret: its hash, and the id of the server secret that it was derived from. */
interface Stored {
  readonly hash: Uint8Array
  readonly key_id: string
}

/** The 32 bytes of the first answer's nonce. */
export const replayedNonce = (ring: KeyRing, stored: Stored, label: string, fields: ReadonlyArray<Field>) =>
  verified(stored, ring.derive(stored.key_id, label, fields), sha256)

/** The Bridge token of the first answer. */
export const replayedToken = (ring: KeyRing, stored: Stored, label: string, fields: ReadonlyArray<Field>) =>
  verified<Redacted.Redacted<string>>(
    stored,
    Option.map(ring.derive(stored.key_id, label, fields), (bytes) => Tokens.format("sbt", bytes)),
    Tokens.hash
  )

const verified = <A>(stored: Stored, derived: Option.Option<A>, hash: (secret: A) => Uint8Array) =>
  Option.isSome(derived) && equal(hash(derived.value), stored.hash) ? Effect.succeed(derived.value) : underivable
