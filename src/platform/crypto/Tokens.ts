/**
 * Wire tokens: the text form of every 256-bit secret, and of registered client ids (spec 2.2, 2.5, 4.10).
 *
 *     token    = kind "_" value checksum        53 characters, all safe in URLs and headers
 *     value    = 43 base62 digits               256 bits, most significant digit first, padded with "0"
 *     checksum = 6 base62 digits                CRC-32 (as in zlib) of everything before it
 *
 * The checksum protects nothing. It lets the service reject a mistyped or foreign token without a database read, and
 * tell a leaked token from ordinary text (decisions.md, What tokens look like).
 */
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { crc32 } from "node:zlib"
import { sha256 } from "./Sha256.ts"

export const kinds = {
  sbe: "bootstrap credential",
  sbt: "Bridge token",
  spt: "project token",
  sop: "operator token",
  sat: "OAuth access token",
  sba: "access token of a Bridge",
  srt: "OAuth refresh token",
  sac: "OAuth authorization code",
  sci: "registered OAuth client id",
  scs: "console session",
  sco: "console link"
} as const

export type TokenKind = keyof typeof kinds

/** `bytes` are exactly 32, random or derived. */
export const format = (kind: TokenKind, bytes: Uint8Array): Redacted.Redacted<string> => {
  const head = `${kind}_${base62(bytes)}`
  return Redacted.make(head + checksum(head), { label: kind })
}

/** A fresh token from the system's random source. */
export const mint = (kind: TokenKind): Effect.Effect<Redacted.Redacted<string>> =>
  Effect.sync(() => format(kind, randomBytes(32)))

/**
 * The value that is stored and looked up. A token has 256 bits of entropy, so it needs no salt, key or stretching.
 * It is computed once per token of a request, for limits and for the look-up.
 */
export const hash = (token: Redacted.Redacted<string>): Uint8Array => {
  const known = hashes.get(token)
  if (known !== undefined) return known
  const computed = sha256(Redacted.value(token))
  hashes.set(token, computed)
  return computed
}
const hashes = new WeakMap<Redacted.Redacted<string>, Uint8Array>()

/** Whether the text is a well-formed token of this kind. */
export const isToken = (kind: TokenKind, text: string): boolean => kindOf(text) === kind

/** The kind of a well-formed token; undefined for any other text. */
export const kindOf = (text: string): TokenKind | undefined => {
  const match = whole.exec(text)
  return match !== null && isSound(text) ? (match[1] as TokenKind) : undefined
}

const whole = new RegExp(`^(${Object.keys(kinds).join("|")})_[0-9A-Za-z]{49}$`)

const isSound = (token: string) => token.slice(4, 47) <= largest && token.slice(47) === checksum(token.slice(0, 47))

const checksum = (head: string) => digits(crc32(head), 6)

/** Divides by 62^8, the largest power of 62 whose remainders are exact as numbers: eight digits at a time. */
const base62 = (bytes: Uint8Array) => {
  let rest = BigInt(`0x${Buffer.from(bytes).toString("hex")}`)
  let text = ""
  while (text.length < 43) {
    text = digits(Number(rest % eightDigits), 8) + text
    rest /= eightDigits
  }
  return text.slice(-43)
}

/** `length` base62 digits. */
export const digits = (value: number, length: number) => {
  let text = ""
  for (let rest = value; text.length < length; rest = Math.floor(rest / 62)) text = alphabet[rest % 62] + text
  return text
}

// In ASCII order, so that values of equal length compare as text.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const eightDigits = 62n ** 8n
/** 2^256 - 1. The largest number of 43 digits is 2 % greater. */
const largest = base62(new Uint8Array(32).fill(0xff))
