/**
 * Secrets that are derived instead of stored, so that an exact retry gets the original answer (spec 3.4; decisions.md,
 * How an exact retry gets a secret that is not stored).
 *
 *     subkey = HKDF-SHA-256(server secret, info = purpose)                       RFC 5869, no salt, 32 bytes
 *     secret = HMAC-SHA-256(subkey, lp(label) || lp(field) || ...)               lp(x) = u16be(length of x) || x
 *     key id = HKDF-SHA-256(server secret, info = purpose "/key-id"), 4 bytes    stored with the derived row
 *
 * The fields are a stored random salt and the secret that the client sends again on its retry. Without the client's
 * secret, the database and the server secret together derive nothing.
 */
import { Array, Option, Redacted } from "effect"
import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto"

/** One purpose for each use of a server secret, so that no two uses share a subkey. */
export type Purpose =
  | "bridge/v1/challenge-nonce"
  | "bridge/v1/access-token"
  | "mobile/v1/push-token"
  | "mobile/v1/push-lookup"
  | "oauth/v1/refresh-successor"

/** Text is encoded as UTF-8. At most 65,535 bytes; a longer field is a defect. */
export type Field = string | Uint8Array | Redacted.Redacted<string>

export interface DerivationKey {
  /** 8 lowercase hex digits. Reveals nothing about a secret that cannot be guessed. */
  readonly id: string
  /** 32 bytes. */
  readonly derive: (label: string, fields: ReadonlyArray<Field>) => Uint8Array
}

export interface KeyRing {
  /** Derives new secrets. */
  readonly current: DerivationKey
  /** Derives with the key of that id; none if its secret is no longer configured. */
  readonly derive: (keyId: string, label: string, fields: ReadonlyArray<Field>) => Option.Option<Uint8Array>
  /** Derives with every key, for rows that hold no key id: their hash tells which result is the right one. */
  readonly deriveWithEach: (label: string, fields: ReadonlyArray<Field>) => ReadonlyArray<Uint8Array>
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
        ),
      deriveWithEach: (label, fields) => keys.map((key) => key.derive(label, fields))
    }
  }
}

/** 32 bytes. The input is the server secret's value as UTF-8. */
export const subkey = (secret: Redacted.Redacted<string>, purpose: Purpose): Redacted.Redacted<Uint8Array> =>
  Redacted.make(hkdf(secret, purpose, 32))

/**
 * 32 bytes derived from a token that the client presents. No server secret is involved: a copy of the database derives
 * nothing without the token, and the token derives nothing without the fields.
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
