/** `doctor` reports secrets that can be guessed or that contain each other, and never prints a value. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer, Redacted } from "effect"
import { createHash } from "node:crypto"
import { backupKey, oauthSecret, pushKeys, secrets } from "../../../cli/support/checks/secrets.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"

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
const examine = (given: Parameters<typeof settings>[0]) => {
  const { message, status } = secrets(settings(given))
  return `${status} ${message}`
}

describe("secrets", () => {
  it("are long enough and independent of each other", () => {
    assert.strictEqual(
      examine({ url: "postgres://u:other@localhost/x" }),
      "ok Long enough, and independent of each other."
    )
  })

  it.each([
    ["one repeated letter", "x".repeat(40)],
    ["a repeated word", "change-me-change-me-change-me-change-me"],
    ["a repeated word and digits", "enrolenrolenrolenrolenrolenrolenrol-1234567890"],
    ["a longer repeated word", "enrollment-secret-enrollment-secret-enrollment-secret"],
    ["the alphabet and the digits", "abcdefghijklmnopqrstuvwxyz0123456789"],
    ["a word and digits that go on", "passwordpassword1234567890123456"],
    ["made of four letters", "abcdabdcacbdbacdadbcabcdabdcacbd"],
    ["the ten digits repeated", "0123456789012345678901234567890123456789"],
    ["an address of one repeated letter", `aa://${"a".repeat(40)}`]
  ])("can be guessed if one is %s", (_, token) => {
    const message = examine({ token })
    assert.strictEqual(
      message,
      "fail SERVICE_BRIDGE_TOKEN_SECRET: easy to guess. Replace with the output of: openssl rand -base64 32"
    )
    assert.notInclude(message, token)
  })

  it.each([
    ["base64", good("a")],
    ["hexadecimal", createHash("sha256").update("a").digest("hex")],
    ["16 bytes in hexadecimal", createHash("md5").update("a").digest("hex")],
    ["text that begins like an address", `k://[${good("a")}`]
  ])("cannot be guessed if they are random, in %s", (_, token) => {
    assert.match(examine({ token }), /^ok /)
  })

  it("are not independent if one equals or contains another, or is the password of the database", () => {
    const pair = (one: string, other: string) =>
      `fail ${one} and ${other} are equal, or one contains the other: generate each of them separately.`
    assert.strictEqual(
      examine({ lookup: good("token") }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_PUSH_LOOKUP_KEY")
    )
    assert.strictEqual(
      examine({ enrollment: `${good("token")}-2` }),
      pair("SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET")
    )
    assert.strictEqual(
      examine({ tokenPrevious: good("token") }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS")
    )
    assert.strictEqual(
      examine({ tokenPrevious: `${good("token")}-2` }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS")
    )
    assert.strictEqual(
      examine({ token: Buffer.alloc(32, good("k1")).toString("base64"), key: Buffer.alloc(32, good("k1")) }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "k1 of SERVICE_PUSH_TOKEN_KEYS")
    )
    assert.strictEqual(
      examine({ url: `postgres://u:${good("token")}@localhost/x` }),
      pair("SERVICE_BRIDGE_TOKEN_SECRET", "the password in DATABASE_URL")
    )
  })

  it("may have previous values while they are being replaced", () => {
    assert.strictEqual(
      examine({ tokenPrevious: good("before") }),
      "ok Good. Remove SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS one day after the replacement."
    )
  })
})

describe("the secret of OAuth", () => {
  it("is missed, because a client that loses an answer would have to sign in again", () => {
    const { message, status } = oauthSecret({ oauth: {} } as never)
    assert.strictEqual(
      `${status} ${message}`,
      "warn SERVICE_OAUTH_SECRET is not set: a client that loses the answer to a refresh has to sign in again. Set the output of: openssl rand -base64 32"
    )
    assert.strictEqual(oauthSecret({ oauth: { secret: Redacted.make(good("oauth")) } } as never).status, "ok")
  })
})

describe("the keys of push tokens", () => {
  it("are recommended if APNs is configured", () => {
    assert.deepStrictEqual(pushKeys(settings({})), [])
    assert.deepStrictEqual(
      pushKeys(settings({ apns: true })).map(({ message, status }) => `${status} ${message}`),
      [
        "warn The keys of push tokens are derived from SERVICE_BRIDGE_TOKEN_SECRET: set SERVICE_PUSH_TOKEN_KEYS and SERVICE_PUSH_LOOKUP_KEY, then run rekey-push-tokens."
      ]
    )
    const own = { apns: true, key: Buffer.alloc(32), lookup: good("lookup") }
    assert.deepStrictEqual(
      pushKeys(settings(own)).map(({ message, status }) => `${status} ${message}`),
      ["ok Push tokens have keys of their own."]
    )
  })
})

describe("every secret in the environment", () => {
  const random = (name: string) => good(name).slice(0, 43)
  const environment: Record<string, string> = {
    DATABASE_URL: `postgres://bridge:${random("password")}@localhost/x`,
    SERVICE_BRIDGE_ENROLLMENT_SECRET: random("1"),
    SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: random("2"),
    SERVICE_BRIDGE_TOKEN_SECRET: random("3"),
    SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: random("4"),
    SERVICE_OAUTH_SECRET: random("8"),
    SERVICE_OAUTH_SECRET_PREVIOUS: random("9"),
    SERVICE_PUSH_LOOKUP_KEY: random("5"),
    SERVICE_PUSH_LOOKUP_KEY_PREVIOUS: random("6"),
    SERVICE_BACKUP_KEY: good("backup"),
    SERVICE_PUSH_TOKEN_KEYS: `k2:${Buffer.alloc(32, random("7")).toString("base64")}`
  }
  const read = (environment: Record<string, string>) =>
    Effect.scoped(Layer.build(Layer.fresh(Settings.layer))).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(environment)),
      Effect.map((context) => secrets(Context.get(context, Settings)))
    )

  it.effect("is read from the settings", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* read(environment)).status, "ok")
    })
  )

  it.effect.each(Object.keys(environment).filter((name) => name.startsWith("SERVICE_")))("includes %s", (name) =>
    Effect.gen(function* () {
      const weak = name === "SERVICE_PUSH_TOKEN_KEYS" ? `k2:${"A".repeat(43)}=` : "x".repeat(40)
      const { message } = yield* read({ ...environment, [name]: weak })
      assert.match(message, new RegExp(`^(k2 of )?${name}: easy to guess`))
    })
  )

  it.effect("includes the password in DATABASE_URL", () =>
    Effect.gen(function* () {
      const url = `postgres://bridge:${environment["SERVICE_PUSH_LOOKUP_KEY"]}@localhost/x`
      const { message } = yield* read({ ...environment, DATABASE_URL: url })
      assert.include(message, "the password in DATABASE_URL and SERVICE_PUSH_LOOKUP_KEY are equal")
    })
  )
})

describe("the key of backups", () => {
  it("is asked for where it is not set", () => {
    const [warning] = backupKey({ backup: { key: undefined } })
    assert.strictEqual(warning?.status, "warn")
    assert.include(warning?.message, "SERVICE_BACKUP_KEY is not set, so backup-database refuses")
    assert.deepStrictEqual(backupKey({ backup: { key: Redacted.make(good("backup")) } }), [])
  })
})
