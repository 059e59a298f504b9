/**
 * Wire tokens: the text of every 256-bit secret, and of a registered client id (spec 2.2, 2.5, 4.10).
 *
 *     token    = kind "_" value checksum        53 characters, all of them safe in a URL and in a header
 *     value    = 43 base62 digits               256 bits, most significant digit first, padded with "0"
 *     checksum = 6 base62 digits                CRC-32 (the one of zlib) of everything before it
 *
 * The checksum protects nothing. It lets a mistyped or foreign token be refused before any database read, and a leaked
 * one be told from ordinary text.
 */
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { crc32 } from "node:zlib"
import { sha256 } from "./Sha256.ts"

export const kinds = {
  sbe: "bootstrap credential",
  sbt: "Bridge token",
  spt: "project token",
  sat: "OAuth access token",
  srt: "OAuth refresh token",
  sac: "OAuth authorization code",
  sci: "registered OAuth client id"
} as const

export type TokenKind = keyof typeof kinds

/** `bytes`: exactly 32, random or derived. */
export const format = (kind: TokenKind, bytes: Uint8Array): Redacted.Redacted<string> => {
  const head = `${kind}_${base62(bytes)}`
  return Redacted.make(head + checksum(head), { label: kind })
}

/** A fresh token from the system's random source. */
export const mint = (kind: TokenKind): Effect.Effect<Redacted.Redacted<string>> =>
  Effect.sync(() => format(kind, randomBytes(32)))

/** What is stored and looked up; a token has 256 bits, so it needs neither salt nor key nor stretching. */
export const hash = (token: Redacted.Redacted<string>): Uint8Array => sha256(Redacted.value(token))

/** Whether `format(kind, …)` can have made this text. */
export const isToken = (kind: TokenKind, text: string): boolean => kindOf(text) === kind

/** The kind of a well-formed token; undefined for any other text. */
export const kindOf = (text: string): TokenKind | undefined => {
  const match = whole.exec(text)
  return match !== null && isSound(text) ? (match[1] as TokenKind) : undefined
}

/** The kind of the first whole token anywhere in a text, in linear time. A prefix alone is ordinary text. */
export const findToken = (text: string): TokenKind | undefined => {
  for (const [, token = "", kind] of text.matchAll(anywhere)) {
    if (isSound(token)) return kind as TokenKind
  }
}

/** The first whole token in any text of a value, and the path of the member that holds it. */
export const findTokenIn = (value: unknown, field = ""): { field: string; kind: TokenKind } | undefined => {
  if (typeof value === "string") {
    const kind = findToken(value)
    return kind === undefined ? undefined : { field, kind }
  }
  if (typeof value !== "object" || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    const found = findTokenIn(member, field === "" ? name : `${field}.${name}`)
    if (found !== undefined) return found
  }
}

const pattern = `(${Object.keys(kinds).join("|")})_[0-9A-Za-z]{49}`
const whole = new RegExp(`^${pattern}$`)
// A look-ahead, because the last three characters of a false token may be the prefix of a true one.
const anywhere = new RegExp(`(?=(${pattern}))`, "g")

const isSound = (token: string) => token.slice(4, 47) <= largest && token.slice(47) === checksum(token.slice(0, 47))

const checksum = (head: string) => digits(crc32(head), 6)

/** Eight digits a division: 62^8 is the largest power of 62 whose remainders are exact as numbers. */
const base62 = (bytes: Uint8Array) => {
  let rest = BigInt(`0x${Buffer.from(bytes).toString("hex")}`)
  let text = ""
  while (text.length < 43) {
    text = digits(Number(rest % eightDigits), 8) + text
    rest /= eightDigits
  }
  return text.slice(-43)
}

const digits = (value: number, length: number) => {
  let text = ""
  for (let rest = value; text.length < length; rest = Math.floor(rest / 62)) text = alphabet[rest % 62] + text
  return text
}

// In ASCII order, so that values of one length compare as text.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const eightDigits = 62n ** 8n
/** 2^256 - 1: 43 digits reach 2 % further. */
const largest = base62(new Uint8Array(32).fill(0xff))
