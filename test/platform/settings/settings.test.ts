/**
 * Settings that are refused, each beside the nearest one that is not. The bounds of numbers are compared with
 * docs/reference.md (test/docs/operators/reference.test.ts), push delivery has a table of its own
 * (test/push/settings.test.ts).
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Exit, Layer, Redacted } from "effect"
import { Settings, unusualLifetimes } from "../../../src/platform/settings/Settings.ts"
import { unknownIn } from "../../../src/platform/settings/Unknown.ts"
import { read as page, rows } from "../../support/run/Markdown.ts"
import { environment } from "../../support/service/Service.ts"

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

type Read = Settings["Service"]

const secondsOf = (duration: Duration.Duration) => String(Duration.toSeconds(duration))
const textOf = (secret: Redacted.Redacted<string> | undefined) => secret && Redacted.value(secret)
const onOff = (isOn: boolean) => (isOn ? "on" : "off")
const listOf = (items: Iterable<string> | undefined) => [...(items ?? [])].join()
const secret = (name: string) => `${name} of the tests, long enough`.padEnd(32)

/** Setting -> a value that no other one has, and where it is read. */
const places: Readonly<Record<string, readonly [value: string, of: (read: Read) => unknown]>> = {
  SERVICE_PROCESSES: ["3", ({ processes }) => String(processes)],
  SERVICE_HOST: ["192.0.2.7", ({ http }) => http.host],
  SERVICE_PORT: ["1234", ({ http }) => String(http.port)],
  SERVICE_BASE_URL: ["https://base.example", ({ baseUrl }) => baseUrl.origin],
  SERVICE_TRUSTED_PROXIES: ["10.0.0.0/8,192.0.2.1", ({ http }) => listOf(http.trustedProxies)],
  SERVICE_RATE_LIMITS: ["on", ({ http }) => onOff(http.rateLimits)],
  SERVICE_LOG_LEVEL: ["Debug", ({ http }) => http.logLevel],
  DATABASE_URL: ["postgres://serves@h/x", ({ database }) => textOf(database.url)],
  SERVICE_DATABASE_OWNER_URL: ["postgres://owns@h/x", ({ database }) => textOf(database.ownerUrl)],
  SERVICE_DATA_DIR: ["/data-of-the-tests", ({ database }) => database.dataDir],
  SERVICE_DATABASE_POOLER: ["on", ({ database }) => onOff(database.pooler)],
  SERVICE_SHARED_LOOKUPS: ["off", ({ database }) => onOff(database.sharedLookups)],
  SERVICE_AUDIT_RETENTION_DAYS: ["11", ({ audit }) => String(Duration.toDays(audit.retention))],
  SERVICE_BACKUP_KEY: [secret("backup"), ({ backup }) => textOf(backup.key)],
  SERVICE_BACKUP_DIR: ["/backups", ({ backup }) => backup.folder],
  SERVICE_BACKUP_EVERY_SECONDS: ["12", ({ backup }) => secondsOf(backup.every)],
  SERVICE_BACKUP_KEEP: ["13", ({ backup }) => String(backup.keep)],
  SERVICE_ERASURE_FILE: ["/erasures", ({ erasureFile }) => erasureFile],
  SERVICE_BRIDGE_ENROLLMENT_SECRET: [secret("enrollment"), ({ bridge }) => textOf(bridge.enrollmentSecret)],
  SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: [
    secret("former enrollment"),
    ({ bridge }) => textOf(bridge.enrollmentSecretPrevious)
  ],
  SERVICE_BRIDGE_TOKEN_SECRET: [secret("token"), ({ bridge }) => textOf(bridge.tokenSecret)],
  SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: [secret("former token"), ({ bridge }) => textOf(bridge.tokenSecretPrevious)],
  SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS: ["14", ({ bridge }) => secondsOf(bridge.challengeTtl)],
  SERVICE_BRIDGE_TOKEN_TTL_SECONDS: ["15", ({ bridge }) => secondsOf(bridge.tokenTtl)],
  SERVICE_BRIDGE_ROTATION_TTL_SECONDS: ["16", ({ bridge }) => secondsOf(bridge.rotationTtl)],
  SERVICE_BRIDGE_PROOF_REPLAY_SECONDS: ["17", ({ bridge }) => secondsOf(bridge.proofReplay)],
  SERVICE_BRIDGE_DPOP: ["required", ({ bridge }) => bridge.dpop],
  SERVICE_INSTANCE_ID: ["instance-7", ({ access }) => access.instanceId],
  SERVICE_OAUTH_SECRET: [secret("oauth"), ({ oauth }) => textOf(oauth.secret)],
  SERVICE_OAUTH_SECRET_PREVIOUS: [secret("former oauth"), ({ oauth }) => textOf(oauth.secretPrevious)],
  SERVICE_AUTH_URL: ["https://auth.example", ({ authUrl }) => authUrl.origin],
  SERVICE_OAUTH_CODE_TTL_SECONDS: ["18", ({ oauth }) => secondsOf(oauth.codeTtl)],
  SERVICE_OAUTH_ACCESS_TTL_SECONDS: ["19", ({ oauth }) => secondsOf(oauth.accessTtl)],
  SERVICE_OAUTH_MOBILE_ACCESS_TTL_SECONDS: ["20", ({ oauth }) => secondsOf(oauth.mobileAccessTtl)],
  SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS: ["21", ({ oauth }) => secondsOf(oauth.refreshIdleTtl)],
  SERVICE_OAUTH_REFRESH_MAX_TTL_SECONDS: ["22", ({ oauth }) => secondsOf(oauth.refreshMaxTtl)],
  SERVICE_OAUTH_REFRESH_GRACE_SECONDS: ["23", ({ oauth }) => secondsOf(oauth.refreshGrace)],
  SERVICE_OAUTH_DYNAMIC_REGISTRATION: ["on", ({ dynamicRegistration }) => onOff(dynamicRegistration)],
  SERVICE_OAUTH_REVOCATION: ["off", ({ oauth }) => onOff(oauth.revocation)],
  SERVICE_OAUTH_CIMD: ["off", ({ oauth }) => oauth.cimd],
  SERVICE_OAUTH_CIMD_HOSTS: ["one.example,two.example", ({ oauth }) => listOf(oauth.cimdHosts)],
  SERVICE_CONSOLE: ["off", ({ console }) => onOff(console.enabled)],
  SERVICE_ALLOWED_ORIGINS: ["https://app.example", ({ mcp }) => listOf(mcp.allowedOrigins)],
  SERVICE_ENVIRONMENT: ["staging", ({ identity }) => identity.environment],
  SERVICE_REVISION: ["r7", ({ identity }) => identity.service_revision],
  SERVICE_PUSH_TOKEN_KEYS: [
    `k1:${"A".repeat(42)}E=`,
    ({ push }) => push.tokenKeys.map(({ id, key }) => `${id}:${Buffer.from(Redacted.value(key)).toString("base64")}`)[0]
  ],
  SERVICE_PUSH_LOOKUP_KEY: [secret("lookup"), ({ push }) => textOf(push.lookupKey)],
  SERVICE_PUSH_LOOKUP_KEY_PREVIOUS: [secret("former lookup"), ({ push }) => textOf(push.lookupKeyPrevious)],
  SERVICE_APNS_TEAM_ID: ["TEAM", ({ push }) => push.apns?.teamId],
  SERVICE_APNS_KEY_ID: ["KEY", ({ push }) => push.apns?.keyId],
  SERVICE_APNS_KEY_FILE: ["/apns.p8", ({ push }) => push.apns?.keyFile],
  SERVICE_APNS_TOPICS: ["com.example.app,com.example.other", ({ push }) => listOf(push.topics)],
  SERVICE_APNS_ENVIRONMENTS: ["development", ({ push }) => listOf(push.environments)],
  SERVICE_APNS_ORIGIN_PRODUCTION: ["https://production.example", ({ push }) => push.origins.production],
  SERVICE_APNS_ORIGIN_DEVELOPMENT: ["https://development.example", ({ push }) => push.origins.development],
  SERVICE_APNS_CA_FILE: ["/ca.pem", ({ push }) => push.caFile],
  SERVICE_CHANNEL_PRIVATE_HOSTS: ["ntfy.lan", ({ push }) => listOf(push.channelPrivateHosts)],
  SERVICE_WEBPUSH_HOSTS: ["push.lan", ({ push }) => listOf(push.webPushHosts)],
  SERVICE_WEBPUSH_CONTACT: ["mailto:ops@example.com", ({ push }) => push.webPushContact],
  SERVICE_EMBEDDINGS_URL: ["https://models.example/v1", ({ embeddings }) => embeddings?.url],
  SERVICE_EMBEDDINGS_MODEL: ["small", ({ embeddings }) => embeddings?.model],
  SERVICE_EMBEDDINGS_DIMENSIONS: ["64", ({ embeddings }) => String(embeddings?.dimensions)],
  SERVICE_EMBEDDINGS_KEY_FILE: ["/embeddings.key", ({ embeddings }) => embeddings?.keyFile],
  SERVICE_METRICS_PORT: ["5678", ({ telemetry }) => String(telemetry.metricsPort)],
  SERVICE_OTLP_URL: ["http://127.0.0.1:4318/", ({ telemetry }) => telemetry.otlpUrl]
}

describe("every setting", () => {
  it.effect("is read under its own name", () =>
    Effect.gen(function* () {
      const given = Object.fromEntries(Object.entries(places).map(([name, [value]]) => [name, value]))
      const settings = Context.get(yield* readOnly(given), Settings)
      const found = Object.fromEntries(Object.entries(places).map(([name, [, of]]) => [name, of(settings)]))
      assert.deepStrictEqual(found, given)
      // The number of connections is divided between processes, and has rows of its own.
      const others = ["SERVICE_CONNECTIONS", "SERVICE_DATABASE_POOL"]
      assert.sameMembers([...Object.keys(places), ...others], [...settings.known])
      assert.strictEqual(settings.resource, "https://base.example/mcp")
    })
  )
})

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
        SERVICE_PORTXYZ: "1",
        SERVICE_PORTWXYZ: "1",
        SERVICE_LOG_LEVEL: "Info",
        SERVICE_WEATHER: "1",
        PATH: "/bin"
      }
      assert.deepStrictEqual(unknownIn(env, known), [
        "Not a setting: SERVICE_PORTWXYZ; see docs/reference.md.",
        "Not a setting: SERVICE_PORTXYZ; did you mean SERVICE_PORT?",
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
