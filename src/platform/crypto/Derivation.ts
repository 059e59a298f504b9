/**
 * Secrets that are derived, not stored, so that an exact retry is answered exactly (spec 3.4).
 *
 *     subkey = HKDF-SHA-256(server secret, info = purpose)                       RFC 5869, no salt, 32 bytes
 *     secret = HMAC-SHA-256(subkey, lp(label) || lp(field) || ...)               lp(x) = u16be(length of x) || x
 *     key id = HKDF-SHA-256(server secret, info = purpose "/key-id"), 4 bytes    stored beside what was derived
 *
 * The fields hold a stored random salt and the secret that the client presents again on its retry. The database and the
 * server secret together derive nothing without the latter.
 */
import { Array, Option, Redacted } from "effect"
import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto"

/** One per use of a server secret: no subkey serves two. */
export type Purpose =
  | "bridge/v1/challenge-nonce"
  | "bridge/v1/access-token"
  | "mobile/v1/push-token"
  | "mobile/v1/push-lookup"

/** Text counts as UTF-8. At most 65,535 bytes; more is a defect. */
export type Field = string | Uint8Array | Redacted.Redacted<string>

export interface DerivationKey {
  /** 8 lowercase hex digits. Says nothing of the key to anyone who cannot guess the secret. */
  readonly id: string
  /** 32 bytes. */
  readonly derive: (label: string, fields: ReadonlyArray<Field>) => Uint8Array
}

export interface KeyRing {
  /** Derives what is new. */
  readonly current: DerivationKey
  /** Derives again what the key of that id derived; none once its secret is no longer configured. */
  readonly derive: (keyId: string, label: string, fields: ReadonlyArray<Field>) => Option.Option<Uint8Array>
}

export const KeyRing = {
  make: (options: {
    readonly purpose: Purpose
    readonly current: Redacted.Redacted<string>
    readonly previous: Option.Option<Redacted.Redacted<string>>
  }): KeyRing => {
    const current = derivationKey(options.current, options.purpose)
    const previous = Option.map(options.previous, (secret) => derivationKey(secret, options.purpose))
    const keys = [current, ...Option.toArray(previous)]
    return {
      current,
      derive: (keyId, label, fields) =>
        Option.map(
          Array.findFirst(keys, (key) => key.id === keyId),
          (key) => key.derive(label, fields)
        )
    }
  }
}

/** 32 bytes. A server secret is used as the UTF-8 bytes of its value. */
export const subkey = (secret: Redacted.Redacted<string>, purpose: Purpose): Redacted.Redacted<Uint8Array> =>
  Redacted.make(hkdf(secret, purpose, 32))

/**
 * 32 bytes out of a token that the caller presents: no server secret takes part, so a copy of the database derives
 * nothing, and neither does the token without the fields.
 */
export const deriveFrom = (token: Redacted.Redacted<string>, label: string, fields: ReadonlyArray<Field>): Uint8Array =>
  hmac(createSecretKey(Redacted.value(token), "utf8"), label, fields)

const derivationKey = (secret: Redacted.Redacted<string>, purpose: Purpose): DerivationKey => {
  const key = createSecretKey(Redacted.value(subkey(secret, purpose)))
  return {
    id: hkdf(secret, `${purpose}/key-id`, 4).toString("hex"),
    derive: (label, fields) => hmac(key, label, fields)
  }
}

const hmac = (key: KeyObject, label: string, fields: ReadonlyArray<Field>) =>
  createHmac("sha256", key)
    .update(Buffer.concat([label, ...fields].map(lengthPrefixed)))
    .digest()

const hkdf = (secret: Redacted.Redacted<string>, info: string, length: number) =>
  Buffer.from(hkdfSync("sha256", Redacted.value(secret), "", info, length))

/** Without the length, ("a", "bc") and ("ab", "c") would be one input. */
const lengthPrefixed = (field: Field) => {
  const plain = Redacted.isRedacted(field) ? Redacted.value(field) : field
  const bytes = typeof plain === "string" ? Buffer.from(plain) : plain
  const length = Buffer.alloc(2)
  length.writeUInt16BE(bytes.length)
  return Buffer.concat([length, bytes])
}
