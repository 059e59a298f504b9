/** Whether secrets can be guessed, and whether one tells another. No value of theirs is in what this says. */
import { Redacted } from "effect"
import { deflateRawSync } from "node:zlib"
import type { Settings } from "../../src/platform/settings/Settings.ts"
import { check } from "./check.ts"

type Given = Pick<Settings["Service"], "bridge" | "database" | "push">

export const secrets = (settings: Given) => {
  const all = valuesOf(settings)
  const weak = all.filter(({ least, value }) => least !== undefined && isGuessable(value)).map(({ name }) => name)
  if (weak.length > 0) {
    return check("secrets", "fail", `${weak.join(", ")}: easy to guess; use the output of: openssl rand -base64 32`)
  }
  const pair = all.flatMap((one, index) =>
    all.slice(index + 1).flatMap((other) => (tells(one.value, other.value) ? [[one.name, other.name]] : []))
  )[0]
  if (pair !== undefined) {
    return check(
      "secrets",
      "fail",
      `${pair[0]} and ${pair[1]} are one secret or part of each other: make each by itself.`
    )
  }
  const previous = all.map(({ name }) => name).filter((name) => name.endsWith("_PREVIOUS"))
  return previous.length === 0
    ? check("secrets", "ok", "Long enough, and independent of each other.")
    : check("secrets", "ok", `Good. ${previous.join(", ")}: remove once the replacement is a day old.`)
}

/** Derived keys are as good, but replacing the one secret replaces them too. */
export const pushKeys = ({ push }: Given) => {
  if (push.apns === undefined) return []
  return push.tokenKeys.length > 0 && push.lookupKey !== undefined
    ? [check("push_keys", "ok", "Push tokens have keys of their own.")]
    : [
        check(
          "push_keys",
          "warn",
          "Push tokens hang on SERVICE_BRIDGE_TOKEN_SECRET: set SERVICE_PUSH_TOKEN_KEYS and SERVICE_PUSH_LOOKUP_KEY, then run rekey-push-tokens."
        )
      ]
}

const valuesOf = ({ bridge, database, push }: Given) => {
  const chosen = {
    SERVICE_BRIDGE_ENROLLMENT_SECRET: bridge.enrollmentSecret,
    SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: bridge.enrollmentSecretPrevious,
    SERVICE_BRIDGE_TOKEN_SECRET: bridge.tokenSecret,
    SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: bridge.tokenSecretPrevious,
    SERVICE_PUSH_LOOKUP_KEY: push.lookupKey,
    SERVICE_PUSH_LOOKUP_KEY_PREVIOUS: push.lookupKeyPrevious
  }
  return [
    ...Object.entries(chosen).flatMap(([name, secret]) =>
      secret === undefined ? [] : [{ name, value: Redacted.value(secret), least: 32 }]
    ),
    ...push.tokenKeys.map(({ id, key }) => ({
      name: `${id} of SERVICE_PUSH_TOKEN_KEYS`,
      value: Buffer.from(Redacted.value(key)).toString("base64"),
      least: 32
    })),
    ...passwordOf(database.url)
  ]
}

/** It opens another door, so that it should not be one of these as well. */
const passwordOf = (url: Redacted.Redacted<string> | undefined) => {
  const text = url === undefined ? "" : Redacted.value(url)
  const value = URL.canParse(text) ? decodeURIComponent(new URL(text).password) : ""
  return value === "" ? [] : [{ name: "the password in DATABASE_URL", value, least: undefined }]
}

/** 32 random bytes have ten different characters, and no repetitions to speak of, in every usual encoding. */
const isGuessable = (secret: string) => new Set(secret).size < 10 || deflateRawSync(secret).length < 24

const tells = (one: string, other: string) =>
  Math.min(one.length, other.length) >= 8 && (one.includes(other) || other.includes(one))
