/** The cryptography that a Bridge needs: an Ed25519 key pair (RFC 8032), hashes and random ids. */
import { getPublicKeyAsync, utils } from "@noble/ed25519"
import { Effect, Redacted } from "effect"
import { hash, randomUUID, sign as signWith } from "node:crypto"

/** The private half never leaves the Bridge. */
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

/** 64 bytes. Deterministic: the same key and message give the same signature. */
export const sign = (privateKey: Redacted.Redacted<Uint8Array>, message: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.sync(() =>
    signWith(null, message, { key: Buffer.concat([pkcs8, Redacted.value(privateKey)]), format: "der", type: "pkcs8" })
  )

/** What precedes the seed in a private key of Ed25519 (RFC 8410 7). */
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex")

/** `sha256:` and 64 lower-case hex digits, over the 32 raw bytes of an Ed25519 public key (spec 2.3). */
export const fingerprint = (publicKey: Uint8Array): string => `sha256:${hash("sha256", publicKey, "hex")}`

/** The SHA-256 of the text as UTF-8. */
export const sha256 = (text: string, encoding: "hex" | "base64url"): string => hash("sha256", text, encoding)

/** A random UUID (RFC 9562, version 4). */
export const uuid: Effect.Effect<string> = Effect.sync(() => randomUUID())
