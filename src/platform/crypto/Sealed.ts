/**
 * Encryption with AES-256-GCM (NIST SP 800-38D) for values that the service needs back and the database must not show.
 *
 *     nonce      = 12 random bytes, new for each value (at most 2^32 values per key)
 *     ciphertext = the plain text as UTF-8, encrypted, then a 16-byte tag
 *     aad        = purpose NUL "v1" NUL key id NUL subject
 *
 * The subject names the row. A ciphertext moved to another row, or stored under another key id, does not decrypt.
 */
import { Array, Effect, Option, Redacted } from "effect"
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto"

export interface Sealed {
  readonly key_id: string
  readonly nonce: Uint8Array
  readonly ciphertext: Uint8Array
}

export interface SealingKey {
  /** Without NUL. Two keys may share an id, as a derived key and its predecessor do. */
  readonly id: string
  /** 32 bytes; another length is a defect. */
  readonly key: Redacted.Redacted<Uint8Array>
}

export interface SealingRing {
  /** The id of the key that seals. Rows sealed under another id should be sealed again. */
  readonly current: string
  /** Whether any key has this id. */
  readonly knows: (keyId: string) => boolean
  readonly seal: (plain: Redacted.Redacted<string>, subject: string) => Effect.Effect<Sealed>
  /** None if no key of that id opens it: a missing key, an altered ciphertext and a wrong subject look the same. */
  readonly open: (sealed: Sealed, subject: string) => Option.Option<Redacted.Redacted<string>>
}

export const SealingRing = {
  /** The first key seals, all open. */
  make: (options: {
    readonly purpose: string
    readonly keys: Array.NonEmptyReadonlyArray<SealingKey>
  }): SealingRing => {
    const keys = Array.map(options.keys, ({ id, key }) => ({ id, key: createSecretKey(Redacted.value(key)) }))
    const current = Array.headNonEmpty(keys)
    const aad = (keyId: string, subject: string) => Buffer.from([options.purpose, "v1", keyId, subject].join("\0"))
    return {
      current: current.id,
      knows: (keyId) => keys.some(({ id }) => id === keyId),
      seal: (plain, subject) =>
        Effect.sync(() => ({ key_id: current.id, ...encrypt(current.key, plain, aad(current.id, subject)) })),
      open: (sealed, subject) =>
        Array.findFirst(keys, ({ id, key }) =>
          id === sealed.key_id ? decrypt(key, sealed, aad(id, subject)) : Option.none()
        )
    }
  }
}

const encrypt = (key: KeyObject, plain: Redacted.Redacted<string>, aad: Uint8Array) => {
  const nonce = randomBytes(12)
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 }).setAAD(aad)
  const encrypted = [cipher.update(Redacted.value(plain), "utf8"), cipher.final()]
  return { nonce, ciphertext: Buffer.concat([...encrypted, cipher.getAuthTag()]) }
}

const decrypt = (key: KeyObject, { nonce, ciphertext }: Sealed, aad: Uint8Array) => {
  if (nonce.length !== 12 || ciphertext.length < 16) return Option.none()
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 })
    .setAAD(aad)
    .setAuthTag(ciphertext.subarray(-16))
  const plain = decipher.update(ciphertext.subarray(0, -16))
  // `final` throws only on a wrong tag.
  return Option.map(Option.liftThrowable(() => decipher.final())(), () => Redacted.make(plain.toString("utf8")))
}
