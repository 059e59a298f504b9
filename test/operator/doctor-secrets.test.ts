/** `doctor` on secrets: which could be guessed, and which tells another; never what they are. */
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { createHash } from "node:crypto"
import { pushKeys, secrets } from "../../cli/support/secretChecks.ts"

const good = (name: string) => createHash("sha256").update(name).digest("base64url")

const settings = (given: {
  readonly enrollment?: string
  readonly token?: string
  readonly tokenPrevious?: string
  readonly lookup?: string
  readonly key?: Buffer
  readonly url?: string
  readonly apns?: boolean
}) => {
  const redacted = (value: string | undefined) => (value === undefined ? undefined : Redacted.make(value))
  return {
    bridge: {
      enrollmentSecret: Redacted.make(given.enrollment ?? good("enrollment")),
      tokenSecret: Redacted.make(given.token ?? good("token")),
      tokenSecretPrevious: redacted(given.tokenPrevious)
    },
    push: {
      lookupKey: redacted(given.lookup),
      tokenKeys: given.key === undefined ? [] : [{ id: "k1", key: Redacted.make<Uint8Array>(given.key) }],
      apns: given.apns ? {} : undefined
    },
    database: { url: redacted(given.url) }
  } as never
}
const said = (given: Parameters<typeof settings>[0]) => {
  const { message, status } = secrets(settings(given))
  return `${status} ${message}`
}

describe("secrets", () => {
  it("are long enough and independent", () => {
    assert.strictEqual(
      said({ url: "postgres://u:other@localhost/x" }),
      "ok Long enough, and independent of each other."
    )
  })

  it.each([
    ["one letter", "x".repeat(40)],
    ["a word over and over", "change-me-change-me-change-me-change-me"],
    ["the alphabet of four letters", "abcdabdcacbdbacdadbcabcdabdcacbd"],
    ["the digits", "0123456789012345678901234567890123456789"]
  ])("can be guessed when one is %s", (_, token) => {
    const guessed = said({ token })
    assert.strictEqual(
      guessed,
      "fail SERVICE_BRIDGE_TOKEN_SECRET: easy to guess; use the output of: openssl rand -base64 32"
    )
    assert.notInclude(guessed, token)
  })

  it.each([
    ["base64", good("a")],
    ["hexadecimal", createHash("sha256").update("a").digest("hex")],
    ["16 bytes in hexadecimal", createHash("md5").update("a").digest("hex")]
  ])("cannot be guessed when they are random, in %s", (_, token) => {
    assert.match(said({ token }), /^ok /)
  })

  it("tell each other when one is another, a part of it, or the password of the database", () => {
    const pair = (one: string, other: string) =>
      `fail ${one} and ${other} are one secret or part of each other: make each by itself.`
    assert.strictEqual(said({ lookup: good("token") }), pair("SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_PUSH_LOOKUP_KEY"))
    assert.strictEqual(
      said({ enrollment: `${good("token")}-2` }),
      pair("SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET")
    )
    assert.strictEqual(
      said({ tokenPrevious: good("token") }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS")
    )
    assert.strictEqual(
      said({ token: Buffer.alloc(32, good("k1")).toString("base64"), key: Buffer.alloc(32, good("k1")) }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "k1 of SERVICE_PUSH_TOKEN_KEYS")
    )
    assert.strictEqual(
      said({ url: `postgres://u:${good("token")}@localhost/x` }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "the password in DATABASE_URL")
    )
  })

  it("are being replaced", () => {
    assert.strictEqual(
      said({ tokenPrevious: good("before") }),
      "ok Good. SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: remove once the replacement is a day old."
    )
  })
})

describe("the keys of push tokens", () => {
  it("are recommended where notifications are sent", () => {
    assert.deepStrictEqual(pushKeys(settings({})), [])
    assert.deepStrictEqual(
      pushKeys(settings({ apns: true })).map(({ message, status }) => `${status} ${message}`),
      [
        "warn Push tokens hang on SERVICE_BRIDGE_TOKEN_SECRET: set SERVICE_PUSH_TOKEN_KEYS and SERVICE_PUSH_LOOKUP_KEY, then run rekey-push-tokens."
      ]
    )
    const own = { apns: true, key: Buffer.alloc(32), lookup: good("lookup") }
    assert.deepStrictEqual(
      pushKeys(settings(own)).map(({ message, status }) => `${status} ${message}`),
      ["ok Push tokens have keys of their own."]
    )
  })
})
