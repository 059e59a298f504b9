/**
 * Which secrets among the settings are easy to guess. The server warns of them at the start, and `doctor` fails.
 *
 * The secrets are found by walking the settings, so that a new secret cannot be forgotten here.
 */
import { Redacted, Result } from "effect"
import { parseDatabaseUrl } from "./DatabaseUrl.ts"

/** The names of secrets that are easy to guess. Passwords of other systems are not judged. */
export const guessableIn = (settings: object): ReadonlyArray<string> =>
  secretsIn(settings)
    .filter(({ isPassword, value }) => !isPassword && isGuessable(value))
    .map(({ name }) => name)

interface Secret {
  readonly name: string
  readonly value: string
  /** A password for another system: it may be short, but it must not double as one of our secrets. */
  readonly isPassword: boolean
}

/** Every `Redacted` below `value`. `path` leads to it from the settings. */
export const secretsIn = (value: unknown, path: ReadonlyArray<string> = []): ReadonlyArray<Secret> => {
  if (Redacted.isRedacted(value)) return secretOf(Redacted.value(value), settingAt(path))
  if (Array.isArray(value)) {
    return value.flatMap((item, index) =>
      secretsIn(item.key ?? item, path).map((secret) => ({ ...secret, name: `${item.id ?? index} of ${secret.name}` }))
    )
  }
  return isPlain(value) ? Object.entries(value).flatMap(([key, item]) => secretsIn(item, [...path, key])) : []
}

const isPlain = (value: unknown): value is object =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype

/** The settings are grouped like their environment names: `bridge.tokenSecret` is SERVICE_BRIDGE_TOKEN_SECRET. */
const settingAt = (path: ReadonlyArray<string>) => {
  const name = path
    .join("_")
    .replaceAll(/(?=[A-Z])/g, "_")
    .toUpperCase()
  return name === "DATABASE_URL" ? name : `SERVICE_${name}`
}

const secretOf = (value: unknown, name: string): ReadonlyArray<Secret> => {
  if (value instanceof Uint8Array) return [{ name, value: Buffer.from(value).toString("base64"), isPassword: false }]
  const text = String(value)
  // Decided by the setting and not by the text: a secret may look like an address.
  if (!/DATABASE_(OWNER_)?URL$/.test(name)) return [{ name, value: text, isPassword: false }]
  const { password } = Result.getOrThrow(parseDatabaseUrl(text))
  return password === undefined ? [] : [{ name: `the password in ${name}`, value: password, isPassword: true }]
}

/** 16 random bytes in hexadecimal are estimated at 70 bits or more, 32 in base64 at 180. Words are not looked up. */
const fewestBits = 64

/** A text of repetitions, or of even steps such as `abcdef`, is as easy to guess as what it repeats. */
export const isGuessable = (secret: string) => {
  const text = secret.slice(0, 256)
  return Math.min(bits(text), bits(stepsOf(text))) < fewestBits
}

/** The entropy of a character among those of the text, for each character that repeats nothing before it. */
const bits = (text: string) => newCharacters(text) * entropy(text)

const newCharacters = (text: string) => {
  let found = 0
  for (let start = 0; start < text.length;) {
    const repeated = repeatedFrom(text, start)
    found += repeated === 0 ? 1 : 0
    start += Math.max(repeated, 1)
  }
  return found
}

/** How many characters from `start` on, three or more, also stand earlier in the text; otherwise 0. */
const repeatedFrom = (text: string, start: number) => {
  let length = 3
  while (
    start + length <= text.length &&
    text.slice(0, start + length - 1).includes(text.slice(start, start + length))
  ) {
    length += 1
  }
  return length === 3 ? 0 : length - 1
}

/** Bits per character (Shannon). */
const entropy = (text: string) => {
  const shares = Object.values(Object.groupBy(text, (character) => character)).map((all) => all!.length / text.length)
  return -shares.reduce((sum, share) => sum + share * Math.log2(share), 0)
}

/** The differences between neighbouring characters, as characters. */
const stepsOf = (text: string) =>
  String.fromCharCode(
    ...Array.from({ length: Math.max(text.length - 1, 0) }, (_, index) => {
      return 0x8000 + text.charCodeAt(index + 1) - text.charCodeAt(index)
    })
  )
