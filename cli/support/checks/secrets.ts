/**
 * Checks that no secret can be guessed, and that no secret reveals another. No message contains a secret's value.
 *
 * The secrets are found by walking the settings, so that a new secret cannot be forgotten here.
 */
import { Option, Redacted } from "effect"
import { deflateRawSync } from "node:zlib"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { check } from "./Check.ts"

export const secrets = (settings: object) => {
  const all = secretsIn(settings, [])
  const weak = all.filter(({ isPassword, value }) => !isPassword && isGuessable(value)).map(({ name }) => name)
  if (weak.length > 0) {
    const message = `${weak.join(", ")}: easy to guess`
    return check("secrets", "fail", `${message}. Replace with the output of: openssl rand -base64 32`)
  }
  const pair = all.flatMap((one, index) =>
    all.slice(index + 1).flatMap((other) => (overlap(one.value, other.value) ? [[one.name, other.name]] : []))
  )[0]
  if (pair !== undefined) {
    const message = `${pair[0]} and ${pair[1]} are equal, or one contains the other`
    return check("secrets", "fail", `${message}: generate each of them separately.`)
  }
  const previous = all.map(({ name }) => name).filter((name) => name.endsWith("_PREVIOUS"))
  return previous.length === 0
    ? check("secrets", "ok", "Long enough, and independent of each other.")
    : check("secrets", "ok", `Good. Remove ${previous.join(", ")} one day after the replacement.`)
}

/** Keys derived from the token secret are as strong, but replacing that secret replaces them too. */
export const pushKeys = ({ push }: Pick<Settings["Service"], "push">) => {
  if (push.apns === undefined) return []
  return push.tokenKeys.length > 0 && push.lookupKey !== undefined
    ? [check("push_keys", "ok", "Push tokens have keys of their own.")]
    : [
        check(
          "push_keys",
          "warn",
          "The keys of push tokens are derived from SERVICE_BRIDGE_TOKEN_SECRET: set SERVICE_PUSH_TOKEN_KEYS and SERVICE_PUSH_LOOKUP_KEY, then run rekey-push-tokens."
        )
      ]
}

/** With the embedded database the next start makes it. */
export const oauthSecret = ({ oauth }: Pick<Settings["Service"], "oauth">) =>
  oauth.secret === undefined
    ? check(
        "oauth_secret",
        "warn",
        "SERVICE_OAUTH_SECRET is not set: a client that loses the answer to a refresh has to sign in again. Set the output of: openssl rand -base64 32"
      )
    : check("oauth_secret", "ok", "A client that loses the answer to a refresh gets it again.")

interface Secret {
  readonly name: string
  readonly value: string
  /** A password for another system: it may be short, but it must not double as one of our secrets. */
  readonly isPassword: boolean
}

/** Every `Redacted` below `value`. `path` leads to it from the settings. */
const secretsIn = (value: unknown, path: ReadonlyArray<string>): ReadonlyArray<Secret> => {
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
  if (name !== "DATABASE_URL") return [{ name, value: text, isPassword: false }]
  const { password } = new URL(text)
  return password === "" ? [] : [{ name: `the password in ${name}`, value: decoded(password), isPassword: true }]
}

/** A password with a stray `%` is compared as it stands. */
const decoded = (password: string) =>
  Option.getOrElse(Option.liftThrowable(decodeURIComponent)(password), () => password)

/** 32 random bytes have at least ten different characters in every usual encoding, and do not compress well. */
const isGuessable = (secret: string) => new Set(secret).size < 10 || deflateRawSync(secret).length < 24

const overlap = (one: string, other: string) =>
  Math.min(one.length, other.length) >= 8 && (one.includes(other) || other.includes(one))
