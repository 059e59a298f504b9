/** Secrets that an exact retry is answered with again (spec 3.4; crypto/Derivation.ts). */
import { Effect, Option, type Redacted } from "effect"
import type { Field, KeyRing } from "../../platform/crypto/Derivation.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { refuse } from "../../wire/bridges/BridgeErrors.ts"

/** What was stored of a derived secret: the hash of what was answered, and which server secret derived it. */
interface Stored {
  readonly hash: Uint8Array
  readonly key_id: string
}

/** The 32 bytes of a nonce. */
export const nonceAgain = (ring: KeyRing, stored: Stored, label: string, fields: ReadonlyArray<Field>) =>
  again(stored, ring.derive(stored.key_id, label, fields), sha256)

/** A Bridge token, as it was answered. */
export const tokenAgain = (ring: KeyRing, stored: Stored, label: string, fields: ReadonlyArray<Field>) =>
  again<Redacted.Redacted<string>>(
    stored,
    Option.map(ring.derive(stored.key_id, label, fields), (bytes) => Tokens.format("sbt", bytes)),
    Tokens.hash
  )

/** Never another secret than the first one: minting anew would give one request two answers. */
const again = <A>(stored: Stored, derived: Option.Option<A>, hash: (secret: A) => Uint8Array) =>
  Option.isSome(derived) && equal(hash(derived.value), stored.hash)
    ? Effect.succeed(derived.value)
    : Effect.andThen(
        Effect.logWarning("An original answer cannot be derived again: the secret that derived it is not configured"),
        refuse("bridge_persistence_error")
      )
