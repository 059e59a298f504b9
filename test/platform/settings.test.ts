/**
 * Settings that are refused, each beside the nearest one that is not. The bounds of numbers are compared with
 * docs/reference.md (test/docs/reference.test.ts), push delivery has a table of its own (test/push/settings.test.ts).
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Exit, Layer } from "effect"
import { Settings, unusualLifetimes } from "../../src/platform/settings/Settings.ts"
import { unknownIn } from "../../src/platform/settings/Unknown.ts"
import { read as page, rows } from "../support/run/Markdown.ts"
import { environment } from "../support/service/Service.ts"

const readOnly = (given: Readonly<Record<string, string>>) =>
  Effect.scoped(Layer.build(Layer.fresh(Settings.layer))).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(given))
  )
const read = (given: Readonly<Record<string, string>>) => readOnly({ ...environment, ...given })

const bytes = (length: number) => "s".repeat(length)
const enrollment = environment.SERVICE_BRIDGE_ENROLLMENT_SECRET

/** Setting -> values that are refused, and values that are accepted. */
const cases: Readonly<
  Record<string, { readonly refused: ReadonlyArray<string>; readonly accepted: ReadonlyArray<string> }>
> = {
  SERVICE_BRIDGE_ENROLLMENT_SECRET: { refused: [bytes(31), ""], accepted: [bytes(32)] },
  SERVICE_BRIDGE_TOKEN_SECRET: { refused: [bytes(31), "", enrollment], accepted: [bytes(32), `${enrollment}.`] },
  SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: { refused: [bytes(31)], accepted: [bytes(32)] },
  SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: { refused: [bytes(31)], accepted: [bytes(32)] },
  SERVICE_OAUTH_SECRET: {
    refused: [bytes(31), enrollment, environment.SERVICE_BRIDGE_TOKEN_SECRET],
    accepted: [bytes(32)]
  },
  SERVICE_BASE_URL: {
    refused: [
      "bridge.example.com",
      "https://bridge.example.com/path",
      "https://bridge.example.com/?query",
      "https://user@bridge.example.com",
      "http://bridge.example.com",
      "http://127.0.0.1.example.com"
    ],
    accepted: ["https://bridge.example.com", "http://localhost:8787", "http://[::1]:8787", "http://127.9.9.9"]
  },
  SERVICE_AUTH_URL: {
    refused: ["http://auth.example.com", "https://auth.example.com/path"],
    accepted: ["https://auth.example.com", "http://127.0.0.1:9000"]
  },
  DATABASE_URL: {
    refused: [
      "mysql://localhost/bridge",
      "postgres:/localhost",
      "postgres://user:a/b@localhost/bridge",
      "postgres://user:1/b@localhost/bridge",
      "postgres://user:1?b@localhost/bridge",
      "postgres://user:a#b@localhost/bridge",
      "postgres://user:100%@localhost/bridge",
      "postgres://localhost:port/bridge",
      "postgres://localhost:65536/bridge",
      "postgres://one,/bridge",
      "postgres://fd00::5/bridge",
      "postgres://one,two,three/bridge?port=1,2",
      "postgres://localhost/bridge?sslrotcert=/ca.pem",
      "postgres://localhost/bridge?sslmode=verify",
      "postgres://localhost/bridge?sslmode=disable&sslmode=require",
      "postgres://localhost/bridge?sslmode=prefer&sslrootcert=/ca.pem",
      "postgres://localhost/bridge?sslmode=require&sslcert=/cert.pem",
      "postgres://localhost/bridge?sslcert=/cert.pem&sslkey=/key.pem",
      "postgres://localhost/bridge?target_session_attrs=any",
      "postgres://localhost/bridge?connect_timeout=0",
      "postgres://localhost/bridge?options="
    ],
    accepted: [
      "postgres://localhost/bridge",
      "postgresql://user:a%2Fb@localhost:5432/bridge",
      "postgres://user:password@one:5432,two:5433/bridge?target_session_attrs=read-write",
      "postgres://localhost/bridge?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/cert.pem&sslkey=/key.pem",
      "postgres://localhost/bridge?connect_timeout=60&options=-c%20jit%3Doff"
    ]
  },
  SERVICE_INSTANCE_ID: { refused: ["i".repeat(65), "a b", "a/b"], accepted: ["i".repeat(64), "A.b_c-1"] },
  SERVICE_OAUTH_CIMD: { refused: ["on"], accepted: ["off", "allowlist"] },
  SERVICE_OAUTH_CIMD_HOSTS: {
    refused: ["Claude.ai", "localhost", "claude.ai/path"],
    accepted: ["claude.ai, a-b.example"]
  },
  SERVICE_CHANNEL_PRIVATE_HOSTS: {
    refused: [
      "Ntfy.lan",
      "http://ntfy",
      "ntfy:8080",
      "ntfy/topic",
      "*.lan",
      "2130706433",
      "192.168.001.005",
      "fd00::5"
    ],
    accepted: ["ntfy.lan, ntfy", "localhost", "192.168.1.5", "[fd00::5]"]
  },
  SERVICE_WEBPUSH_CONTACT: {
    refused: ["ops@example.com", "http://example.com/contact", "tel:+1"],
    accepted: ["mailto:ops@example.com", "https://example.com/contact"]
  },
  SERVICE_WEBPUSH_HOSTS: { refused: ["https://push.lan"], accepted: ["push.lan,push,10.0.0.7"] },
  SERVICE_ALLOWED_ORIGINS: {
    refused: ["app.example.com", "https://app.example.com/"],
    accepted: ["", "https://app.example.com,http://localhost:3000"]
  },
  SERVICE_RATE_LIMITS: { refused: ["yes", "true"], accepted: ["on", "off"] },
  SERVICE_DATABASE_POOLER: { refused: ["1"], accepted: ["on", "off"] },
  SERVICE_SHARED_LOOKUPS: { refused: ["false"], accepted: ["on", "off"] },
  SERVICE_OAUTH_REVOCATION: { refused: ["no"], accepted: ["on", "off"] },
  SERVICE_OAUTH_DYNAMIC_REGISTRATION: { refused: ["auto"], accepted: ["on", "off"] },
  SERVICE_LOG_LEVEL: { refused: ["Loud"], accepted: ["Debug"] },
  SERVICE_OTLP_URL: {
    refused: ["ftp://127.0.0.1", "http://user:key@127.0.0.1:4318", "http://127.0.0.1:4318/?key=1", "127.0.0.1"],
    accepted: ["http://127.0.0.1:4318/", "https://otlp.example.com/v1"]
  }
}

describe("a setting", () => {
  for (const [name, { accepted, refused }] of Object.entries(cases)) {
    it.effect.each(refused)(`${name} is refused as "%s"`, (value) =>
      Effect.gen(function* () {
        const { message } = yield* Effect.flip(read({ [name]: value }))
        assert.include(message, name)
        assert.notInclude(message, "\n")
      })
    )
    it.effect.each(accepted)(`${name} is accepted as "%s"`, (value) =>
      Effect.gen(function* () {
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(read({ [name]: value }))))
      })
    )
  }

  const usual: ReadonlyArray<readonly [name: string, least: number, most: number]> = [
    ["SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS", 30, 3600],
    ["SERVICE_BRIDGE_TOKEN_TTL_SECONDS", 300, 2_592_000],
    ["SERVICE_BRIDGE_ROTATION_TTL_SECONDS", 10, 3600]
  ]
  it.effect.each(usual)("%s is unusual below %i and above %i", ([name, least, most]) =>
    Effect.gen(function* () {
      const warned = (seconds: number) =>
        Effect.map(read({ [name]: String(seconds) }), (found) => unusualLifetimes(Context.get(found, Settings)))
      assert.deepStrictEqual([yield* warned(least), yield* warned(most)], [[], []])
      for (const seconds of [least - 1, most + 1])
        assert.deepStrictEqual(yield* warned(seconds), [`${name} is ${seconds}: from ${least} to ${most} is usual.`])
    })
  )

  const divided: ReadonlyArray<readonly [settings: Readonly<Record<string, string>>, pool: number, clients: number]> = [
    [{}, 10, 16_000],
    [{ SERVICE_PROCESSES: "2" }, 5, 8000],
    [{ SERVICE_PROCESSES: "16" }, 3, 1000],
    [{ SERVICE_PROCESSES: "3", SERVICE_DATABASE_POOL: "11", SERVICE_CONNECTIONS: "11" }, 3, 3],
    [{ SERVICE_PROCESSES: "3", SERVICE_DATABASE_POOL: "2", SERVICE_CONNECTIONS: "2" }, 1, 1]
  ]
  it.effect.each(divided)(
    "%o leaves each process %i connections to the database and %i of clients",
    ([given, ...parts]) =>
      Effect.gen(function* () {
        const { database, http } = Context.get(yield* read(given), Settings)
        assert.deepStrictEqual([database.poolSize, http.connections], parts)
      })
  )

  it.effect("SERVICE_OAUTH_DYNAMIC_REGISTRATION is off by default with DATABASE_URL, at a loopback address too", () =>
    Effect.gen(function* () {
      assert.isFalse(Context.get(yield* read({}), Settings).dynamicRegistration)
    })
  )

  it.effect("SERVICE_OAUTH_REFRESH_GRACE_SECONDS does nothing without SERVICE_OAUTH_SECRET", () =>
    Effect.gen(function* () {
      const grace = (found: Context.Context<Settings>) => Context.get(found, Settings).oauth.refreshGrace
      assert.strictEqual(Duration.toSeconds(grace(yield* read({}))), 10)
      const { SERVICE_OAUTH_SECRET: _secret, ...rest } = environment
      assert.isTrue(Duration.isZero(grace(yield* readOnly(rest))))
    })
  )

  it.effect("that is none is named, with the likely one", () =>
    Effect.gen(function* () {
      const { known } = Context.get(yield* read({}), Settings)
      const env = {
        SERVICE_PROT: "1",
        SERVICE_PORT: "1",
        SERVICE_LOG_LEVEL: "Info",
        SERVICE_WEATHER: "1",
        PATH: "/bin"
      }
      assert.deepStrictEqual(unknownIn(env, known), [
        "Not a setting: SERVICE_PROT; did you mean SERVICE_PORT?",
        "Not a setting: SERVICE_WEATHER; see docs/reference.md."
      ])
      const documented = rows(page("docs/reference.md")).flatMap(({ Name }) =>
        Name?.startsWith("SERVICE_") ? [Name] : []
      )
      assert.isAbove(documented.length, 60)
      assert.deepStrictEqual(unknownIn(Object.fromEntries(documented.map((name) => [name, ""])), known), [])
    })
  )

  it.effect("SERVICE_BASE_URL is required when the service listens beyond this machine", () =>
    Effect.gen(function* () {
      const { SERVICE_BASE_URL: _base, ...rest } = environment
      const listening = (SERVICE_HOST: string) => readOnly({ ...rest, SERVICE_HOST })
      assert.include((yield* Effect.flip(listening("0.0.0.0"))).message, "SERVICE_BASE_URL")
      yield* listening("::1")
    })
  )
})
