/** The Bridge's side of Ed25519 (RFC 8032 5.1.5, 5.1.6): a key pair whose private half never leaves the Bridge. */
import { getPublicKeyAsync, signAsync, utils } from "@noble/ed25519"
import { Effect, Redacted } from "effect"

export interface KeyPair {
  /** 32 bytes, a compressed point. */
  readonly publicKey: Uint8Array
  /** 32 bytes, the seed. */
  readonly privateKey: Redacted.Redacted<Uint8Array>
}

export const generateKeyPair: Effect.Effect<KeyPair> = Effect.promise(async () => {
  const seed = utils.randomSecretKey()
  return { publicKey: await getPublicKeyAsync(seed), privateKey: Redacted.make(seed) }
})

/** 64 bytes, the same for the same key and message. */
export const sign = (privateKey: Redacted.Redacted<Uint8Array>, message: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.promise(() => signAsync(message, Redacted.value(privateKey)))
