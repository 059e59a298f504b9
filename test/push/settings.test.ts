/** SERVICE_APNS_* and SERVICE_PUSH_*: a wrong setting ends the start with one line that names it. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { apnsProvider } from "../../src/push/channels/apns/Apns.ts"
import { throwAwayCertificate } from "../support/phones/ThrowAwayCertificate.ts"
import { environment } from "../support/service/Service.ts"

const provider = (given: Readonly<Record<string, string>>) =>
  Layer.build(Layer.fresh(apnsProvider)).pipe(
    Effect.provide(Layer.mergeAll(Layer.fresh(Settings.layer), DatabaseClock.layerLocal)),
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromUnknown({ ...environment, ...complete, ...given })
    ),
    Effect.scoped
  )

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bridge-service-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const complete = {
  SERVICE_APNS_TEAM_ID: "TEAM123456",
  SERVICE_APNS_KEY_ID: "KEY1234567",
  SERVICE_APNS_KEY_FILE: "/nowhere/apns.p8",
  SERVICE_APNS_TOPICS: "com.example.app"
}

const key32 = Buffer.alloc(32, 1).toString("base64")
const wrong: ReadonlyArray<readonly [what: string, name: string, value: string]> = [
  ["a team without a key", "SERVICE_APNS_KEY_ID", ""],
  ["a key without a team", "SERVICE_APNS_TEAM_ID", ""],
  ["no key file", "SERVICE_APNS_KEY_FILE", ""],
  ["no topic", "SERVICE_APNS_TOPICS", ""],
  ["a topic that is not a bundle id", "SERVICE_APNS_TOPICS", "com.example.app,not a topic"],
  ["an unknown environment", "SERVICE_APNS_ENVIRONMENTS", "production,staging"],
  ["no environment", "SERVICE_APNS_ENVIRONMENTS", ","],
  ["an origin without TLS", "SERVICE_APNS_ORIGIN_PRODUCTION", "http://api.push.apple.com"],
  ["an origin with a path", "SERVICE_APNS_ORIGIN_DEVELOPMENT", "https://api.sandbox.push.apple.com/3/device"],
  ["an origin that is not a URL", "SERVICE_APNS_ORIGIN_PRODUCTION", "api.push.apple.com"],
  ["a key of 16 bytes", "SERVICE_PUSH_TOKEN_KEYS", `k1:${Buffer.alloc(16).toString("base64")}`],
  ["a key of 31 bytes", "SERVICE_PUSH_TOKEN_KEYS", `k1:${Buffer.alloc(31, 1).toString("base64url")}`],
  ["a key without an id", "SERVICE_PUSH_TOKEN_KEYS", key32],
  ["two keys with one id", "SERVICE_PUSH_TOKEN_KEYS", `k1:${key32},k1:${key32}`],
  ["a key called derived", "SERVICE_PUSH_TOKEN_KEYS", `derived:${key32}`],
  ["a short lookup key", "SERVICE_PUSH_LOOKUP_KEY", "short"],
  ["a short previous lookup key", "SERVICE_PUSH_LOOKUP_KEY_PREVIOUS", "short"],
  ["a missing key file", "SERVICE_APNS_KEY_FILE", "/nowhere/apns.p8"]
]

describe("a start is refused", () => {
  it.effect.each(wrong)("with %s", ([, name, value]) =>
    Effect.gen(function* () {
      const { message } = yield* Effect.flip(provider({ [name]: value }))
      assert.include(message, name)
      assert.notInclude(message, "\n")
      assert.notInclude(message, key32)
    })
  )

  const pem = (curve: string) =>
    generateKeyPairSync("ec", { namedCurve: curve }).privateKey.export({ type: "pkcs8", format: "pem" }) as string
  const files: ReadonlyArray<readonly [what: string, key: string, ca: string | undefined, name: string]> = [
    ["a key file without a key", "not a key", undefined, "SERVICE_APNS_KEY_FILE"],
    ["a key on another curve", pem("P-384"), undefined, "SERVICE_APNS_KEY_FILE"],
    ["an authority file without certificates", pem("P-256"), "not a certificate", "SERVICE_APNS_CA_FILE"]
  ]
  it.effect.each(files)("with %s", ([, key, ca, name]) =>
    Effect.gen(function* () {
      const at = yield* folder
      const write = (file: string, text: string) => {
        writeFileSync(join(at, file), text)
        return join(at, file)
      }
      const { message } = yield* Effect.flip(
        provider({
          SERVICE_APNS_KEY_FILE: write("apns.p8", key),
          ...(ca && { SERVICE_APNS_CA_FILE: write("ca.pem", ca) })
        })
      )
      assert.include(message, name)
      assert.notInclude(message, key)
    })
  )

  it.effect("but not with a complete configuration", () =>
    Effect.gen(function* () {
      const at = yield* folder
      writeFileSync(join(at, "apns.p8"), pem("P-256"))
      writeFileSync(join(at, "ca.pem"), throwAwayCertificate().cert)
      yield* provider({
        SERVICE_APNS_KEY_FILE: join(at, "apns.p8"),
        SERVICE_APNS_CA_FILE: join(at, "ca.pem"),
        SERVICE_APNS_ENVIRONMENTS: "production",
        SERVICE_APNS_ORIGIN_PRODUCTION: "https://127.0.0.1:2197",
        SERVICE_PUSH_TOKEN_KEYS: `k2:${key32},k1:${key32}`,
        SERVICE_PUSH_LOOKUP_KEY: "a lookup key of the tests, long enough"
      })
    })
  )
})
