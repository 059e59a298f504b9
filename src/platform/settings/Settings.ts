/**
 * Every setting of the service: its environment variable, unit, default and bounds.
 *
 * Durations are whole seconds in the environment and `Duration` inside. Secrets are `Redacted` from here on.
 * Without DATABASE_URL, missing secrets are read from SERVICE_DATA_DIR/secrets.env (Secrets.ts).
 */
import { Config, ConfigProvider, Context, Data, Duration, Effect, Layer, Option, Redacted } from "effect"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import {
  absolute,
  commaSeparated,
  hosts,
  httpsOrigin,
  integer,
  invalid,
  onOff,
  optionalSecret,
  optionalText,
  port,
  postgresUrl,
  privateHosts,
  requiredSecret,
  seconds,
  wholeNumber
} from "./Kinds.ts"
import { revision } from "./Package.ts"
import { type Environment, environments, isTopic } from "../../wire/mobile/Notifications.ts"
import { generatedSecrets, keptSecrets, proposedSecrets } from "./Secrets.ts"
import { recording } from "./Unknown.ts"

/** The message is one line that names the setting and its valid values. The process ends with exit code 78. */
export class ConfigurationError extends Data.TaggedError("ConfigurationError")<{ readonly message: string }> {}

/** A sixteenth of every limit is still enough for one caller. */
const mostProcesses = 16

/** How many processes serve on this machine: limits, connections and memory are divided between them. */
const processes = Config.Literals(["auto"], "SERVICE_PROCESSES").pipe(
  Config.map(() => Math.min(mostProcesses, availableParallelism())),
  Config.orElse(() =>
    wholeNumber(
      "SERVICE_PROCESSES",
      (count) => count >= 1 && count <= mostProcesses,
      `SERVICE_PROCESSES is a whole number of processes from 1 to ${mostProcesses}, or auto.`
    )
  ),
  Config.withDefault(1)
)

const http = Config.all({
  host: Config.NonEmptyString("SERVICE_HOST").pipe(Config.withDefault("127.0.0.1")),
  // 0 means any free port.
  port: port("SERVICE_PORT", 0).pipe(Config.withDefault(8787)),
  baseUrl: optionalText("SERVICE_BASE_URL"),
  /** Of this process. */
  connections: Config.all([integer("SERVICE_CONNECTIONS", "connections", 16_000, 1, 1_000_000), processes]).pipe(
    Config.map(([all, processes]) => partOf(all, processes))
  ),
  trustedProxies: commaSeparated("SERVICE_TRUSTED_PROXIES").pipe(Config.withDefault<Array<string>>([])),
  rateLimits: onOff("SERVICE_RATE_LIMITS", "on"),
  logLevel: Config.LogLevel("SERVICE_LOG_LEVEL").pipe(Config.withDefault("Info" as const))
})

const database = Config.all({
  url: postgresUrl("DATABASE_URL"),
  // Used by commands instead of DATABASE_URL; the server does not start with it.
  ownerUrl: postgresUrl("SERVICE_DATABASE_OWNER_URL"),
  dataDir: Config.NonEmptyString("SERVICE_DATA_DIR").pipe(
    Config.withDefault("./data"),
    Config.mapEffect((path) => absolute("SERVICE_DATA_DIR", path))
  ),
  /** Of this process. By default several processes have five each, and all together less than PostgreSQL allows. */
  poolSize: Config.all({
    processes,
    all: Config.option(
      wholeNumber(
        "SERVICE_DATABASE_POOL",
        (all) => all >= 1 && all <= 500,
        "SERVICE_DATABASE_POOL is a whole number of connections from 1 to 500."
      )
    )
  }).pipe(
    Config.map(({ all, processes }) =>
      partOf(
        Option.getOrElse(all, () => Math.min(60, Math.max(10, 5 * processes))),
        processes
      )
    )
  ),
  // A pooler in transaction mode can run two statements of one connection in two sessions.
  pooler: onOff("SERVICE_DATABASE_POOLER", "off"),
  sharedLookups: onOff("SERVICE_SHARED_LOOKUPS", "on")
})

const audit = Config.all({
  retention: integer("SERVICE_AUDIT_RETENTION_DAYS", "days", 400, 1, 3650).pipe(Config.map(Duration.days))
})

const backup = Config.all({
  key: optionalSecret("SERVICE_BACKUP_KEY"),
  // Undefined means that the service makes no backups by itself.
  folder: optionalText("SERVICE_BACKUP_DIR").pipe(
    Config.mapEffect((path) => (path === undefined ? Effect.undefined : absolute("SERVICE_BACKUP_DIR", path)))
  ),
  every: seconds("SERVICE_BACKUP_EVERY_SECONDS", 86_400, { max: 31_536_000 }),
  keep: integer("SERVICE_BACKUP_KEEP", "backups", 7, 1, 1000)
})

const erasure = Config.all({
  // With the embedded database the default is a file in SERVICE_DATA_DIR.
  file: optionalText("SERVICE_ERASURE_FILE")
})

const bridge = Config.all({
  enrollmentSecret: requiredSecret("SERVICE_BRIDGE_ENROLLMENT_SECRET"),
  enrollmentSecretPrevious: optionalSecret("SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS"),
  tokenSecret: requiredSecret("SERVICE_BRIDGE_TOKEN_SECRET"),
  tokenSecretPrevious: optionalSecret("SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS"),
  challengeTtl: seconds("SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS", 600),
  tokenTtl: seconds("SERVICE_BRIDGE_TOKEN_TTL_SECONDS", 86_400),
  rotationTtl: seconds("SERVICE_BRIDGE_ROTATION_TTL_SECONDS", 300, { max: 86_400 }),
  proofReplay: seconds("SERVICE_BRIDGE_PROOF_REPLAY_SECONDS", 86_400),
  dpop: Config.Literals(["off", "optional", "required"], "SERVICE_BRIDGE_DPOP").pipe(
    Config.withDefault("optional" as const)
  )
})

/** A warning for each lifetime that is unusually short or long. The service uses the setting anyway. */
export const unusualLifetimes = ({ bridge }: Read): ReadonlyArray<string> =>
  usual.flatMap(([name, key, min, max]) => {
    const seconds = Duration.toSeconds(bridge[key])
    return seconds >= min && seconds <= max ? [] : [`${name} is ${seconds}: from ${min} to ${max} is usual.`]
  })

const usual = [
  ["SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS", "challengeTtl", 30, 3600],
  ["SERVICE_BRIDGE_TOKEN_TTL_SECONDS", "tokenTtl", 300, 2_592_000],
  ["SERVICE_BRIDGE_ROTATION_TTL_SECONDS", "rotationTtl", 10, 3600]
] as const

const access = Config.all({
  instanceId: optionalText("SERVICE_INSTANCE_ID").pipe(
    Config.mapEffect((id) =>
      id === undefined || /^[A-Za-z0-9._-]{1,64}$/.test(id)
        ? Effect.succeed(id)
        : invalid("SERVICE_INSTANCE_ID is 1 to 64 letters, digits, dots, underscores and hyphens.")
    )
  )
})

const oauth = Config.all({
  secret: optionalSecret("SERVICE_OAUTH_SECRET"),
  secretPrevious: optionalSecret("SERVICE_OAUTH_SECRET_PREVIOUS"),
  authUrl: optionalText("SERVICE_AUTH_URL"),
  codeTtl: seconds("SERVICE_OAUTH_CODE_TTL_SECONDS", 60),
  accessTtl: seconds("SERVICE_OAUTH_ACCESS_TTL_SECONDS", 3600),
  mobileAccessTtl: seconds("SERVICE_OAUTH_MOBILE_ACCESS_TTL_SECONDS", 900),
  refreshIdleTtl: seconds("SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS", 30 * 86_400),
  refreshMaxTtl: seconds("SERVICE_OAUTH_REFRESH_MAX_TTL_SECONDS", 90 * 86_400),
  // With 0 the first reuse of a refresh token ends its grant.
  refreshGrace: seconds("SERVICE_OAUTH_REFRESH_GRACE_SECONDS", 10, { min: 0, max: 86_400 }),
  dynamicRegistration: Config.option(Config.Literals(["on", "off"], "SERVICE_OAUTH_DYNAMIC_REGISTRATION")),
  revocation: onOff("SERVICE_OAUTH_REVOCATION", "on"),
  cimd: Config.Literals(["allowlist", "off"], "SERVICE_OAUTH_CIMD").pipe(Config.withDefault("allowlist" as const)),
  cimdHosts: hosts("SERVICE_OAUTH_CIMD_HOSTS", ["claude.ai", "chatgpt.com", "vscode.dev"], "claude.ai,vscode.dev")
}).pipe(
  // Without the secret a successor cannot be derived again.
  Config.map((read) => (read.secret === undefined ? { ...read, refreshGrace: Duration.zero } : read))
)

const consolePages = Config.all({ enabled: onOff("SERVICE_CONSOLE", "on") })

/** The identity that server_identity shows, and the web origins that may call /mcp. */
const mcp = Config.all({
  // In addition to the service's own origin. Default: every loopback origin if the base URL is loopback, else none.
  allowedOrigins: Config.option(commaSeparated("SERVICE_ALLOWED_ORIGINS")).pipe(
    Config.mapEffect((origins) =>
      Option.getOrElse(origins, () => []).every((text) => URL.canParse(text) && new URL(text).origin === text)
        ? Effect.succeed(Option.getOrUndefined(origins))
        : invalid("SERVICE_ALLOWED_ORIGINS lists origins such as https://app.example.com.")
    )
  ),
  environment: optionalText("SERVICE_ENVIRONMENT"),
  revision: Config.NonEmptyString("SERVICE_REVISION").pipe(Config.withDefault(revision))
})

const topics = commaSeparated("SERVICE_APNS_TOPICS").pipe(
  Config.withDefault<ReadonlyArray<string>>([]),
  Config.mapEffect((topics) =>
    topics.every((topic) => isTopic(topic))
      ? Effect.succeed(topics)
      : invalid("SERVICE_APNS_TOPICS lists bundle ids such as com.example.app.")
  )
)

const push = Config.all({
  tokenKeys: commaSeparated("SERVICE_PUSH_TOKEN_KEYS").pipe(
    Config.withDefault<ReadonlyArray<string>>([]),
    Config.mapEffect((entries) => {
      const keys = entries.map((entry) => /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/_-]{43}=?)$/.exec(entry))
      const ids = keys.map((key) => key?.[1])
      return keys.every((key) => key !== null) && !ids.includes("derived") && new Set(ids).size === ids.length
        ? Effect.succeed(
            keys.map(([, id, key]) => ({ id: id!, key: Redacted.make<Uint8Array>(Buffer.from(key!, "base64")) }))
          )
        : invalid(
            "SERVICE_PUSH_TOKEN_KEYS is a list such as k2:KEY,k1:KEY; each KEY is 32 bytes in base64, the name derived is reserved."
          )
    })
  ),
  lookupKey: optionalSecret("SERVICE_PUSH_LOOKUP_KEY"),
  lookupKeyPrevious: optionalSecret("SERVICE_PUSH_LOOKUP_KEY_PREVIOUS"),
  environments: commaSeparated("SERVICE_APNS_ENVIRONMENTS").pipe(
    Config.withDefault<ReadonlyArray<string>>(environments),
    Config.mapEffect((names) =>
      names.length > 0 && names.every((name) => (environments as ReadonlyArray<string>).includes(name))
        ? Effect.succeed(names as ReadonlyArray<Environment>)
        : invalid(`SERVICE_APNS_ENVIRONMENTS lists ${environments.join(" or ")}.`)
    )
  ),
  topics,
  // Undefined means that notifications are only logged.
  apns: Config.all({
    teamId: optionalText("SERVICE_APNS_TEAM_ID"),
    keyId: optionalText("SERVICE_APNS_KEY_ID"),
    keyFile: optionalText("SERVICE_APNS_KEY_FILE"),
    topics
  }).pipe(
    Config.mapEffect(({ keyFile, keyId, teamId, topics }) => {
      if (teamId === undefined && keyId === undefined && keyFile === undefined) return Effect.undefined
      return teamId !== undefined && keyId !== undefined && keyFile !== undefined && topics.length > 0
        ? Effect.succeed({ teamId, keyId, keyFile })
        : invalid(
            "SERVICE_APNS_TEAM_ID, SERVICE_APNS_KEY_ID, SERVICE_APNS_KEY_FILE and SERVICE_APNS_TOPICS are set together."
          )
    })
  ) as Config.Config<{ readonly teamId: string; readonly keyId: string; readonly keyFile: string } | undefined>,
  origins: Config.all({
    production: httpsOrigin("SERVICE_APNS_ORIGIN_PRODUCTION", "https://api.push.apple.com"),
    development: httpsOrigin("SERVICE_APNS_ORIGIN_DEVELOPMENT", "https://api.sandbox.push.apple.com")
  }),
  caFile: optionalText("SERVICE_APNS_CA_FILE"),
  channelPrivateHosts: privateHosts("SERVICE_CHANNEL_PRIVATE_HOSTS", "ntfy.lan,192.168.1.5,[fd00::5]"),
  webPushHosts: privateHosts("SERVICE_WEBPUSH_HOSTS", "push.example.com,[fd00::5]"),
  webPushContact: optionalText("SERVICE_WEBPUSH_CONTACT").pipe(
    Config.mapEffect((contact) =>
      contact === undefined || (URL.canParse(contact) && ["mailto:", "https:"].includes(new URL(contact).protocol))
        ? Effect.succeed(contact)
        : invalid(
            "SERVICE_WEBPUSH_CONTACT is an address such as mailto:ops@example.com or https://example.com/contact."
          )
    )
  )
})

/** An endpoint that turns text of memory into vectors. Undefined means that searches go by words alone. */
const embeddings = Config.all({
  url: optionalText("SERVICE_EMBEDDINGS_URL"),
  model: optionalText("SERVICE_EMBEDDINGS_MODEL"),
  dimensions: Config.option(Config.Int("SERVICE_EMBEDDINGS_DIMENSIONS")).pipe(Config.map(Option.getOrUndefined)),
  keyFile: optionalText("SERVICE_EMBEDDINGS_KEY_FILE")
}).pipe(
  Config.mapEffect(({ dimensions, keyFile, model, url }) => {
    if (url === undefined && model === undefined && dimensions === undefined) return Effect.undefined
    if (url === undefined || model === undefined || dimensions === undefined)
      return invalid(
        "SERVICE_EMBEDDINGS_URL, SERVICE_EMBEDDINGS_MODEL and SERVICE_EMBEDDINGS_DIMENSIONS are set together."
      )
    const address = URL.canParse(url) ? new URL(url) : undefined
    if (
      address === undefined ||
      address.href !== `${address.origin}${address.pathname}` ||
      (address.protocol !== "https:" && !(address.protocol === "http:" && isLoopback(address)))
    )
      return invalid(
        "SERVICE_EMBEDDINGS_URL is the whole address, such as https://models.example.com/v1/embeddings, without password and query; http only for a loopback address."
      )
    return dimensions >= 32 && dimensions <= 4096
      ? Effect.succeed({ url, model, dimensions, keyFile })
      : invalid("SERVICE_EMBEDDINGS_DIMENSIONS is a whole number from 32 to 4096.")
  })
) as Config.Config<
  | { readonly url: string; readonly model: string; readonly dimensions: number; readonly keyFile: string | undefined }
  | undefined
>

/** Where metrics and spans go. Undefined means nowhere. */
const telemetry = Config.all({
  metricsPort: Config.option(port("SERVICE_METRICS_PORT", 1)).pipe(Config.map(Option.getOrUndefined)),
  otlpUrl: optionalText("SERVICE_OTLP_URL").pipe(
    Config.mapEffect((text) => {
      const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined
      // A password or key in the address would leak wherever the address is printed.
      const plain = url !== undefined && /^https?:$/.test(url.protocol) && url.href === `${url.origin}${url.pathname}`
      return text === undefined || plain
        ? Effect.succeed(text)
        : invalid("SERVICE_OTLP_URL is an address such as http://127.0.0.1:4318, without password and query.")
    })
  )
})

const all = Config.all({
  processes,
  http,
  database,
  audit,
  backup,
  erasure,
  bridge,
  access,
  oauth,
  console: consolePages,
  mcp,
  push,
  embeddings,
  telemetry
})
type Read = Config.Success<typeof all>

/** Values that depend on several settings. */
interface Resolved {
  readonly baseUrl: URL
  /** The issuer of OAuth tokens; an origin. */
  readonly authUrl: URL
  readonly dynamicRegistration: boolean
  /** The public address of the MCP endpoint, to which tokens are bound. */
  readonly resource: string
  /** Where erasures are recorded; undefined with DATABASE_URL and without SERVICE_ERASURE_FILE. */
  readonly erasureFile: string | undefined
  readonly identity: { readonly environment: string; readonly service_revision: string }
}

interface Known {
  /** The names of all settings. */
  readonly known: ReadonlySet<string>
}

/** What the settings will be once secrets.env is written; random values stand for secrets that are missing. */
export const proposedSettings = readWith(proposedSecrets)

export class Settings extends Context.Service<Settings, Read & Resolved & Known>()("service/Settings") {
  /** Reads twice: a wrong setting ends the start before secrets.env is written. */
  static readonly layer = Layer.effect(Settings, Effect.andThen(proposedSettings, readWith(generatedSecrets)))
  /** For `doctor`, which changes nothing: secrets.env is read as it is. */
  static readonly layerAsKept = Layer.effect(Settings, readWith(keptSecrets))
}

function readWith(secretsOf: typeof generatedSecrets | typeof keptSecrets | typeof proposedSecrets) {
  return Effect.gen(function* () {
    const provider = yield* ConfigProvider.ConfigProvider
    const { url, dataDir } = yield* database
    const complete = url === undefined ? ConfigProvider.orElse(provider, yield* secretsOf(dataDir)) : provider
    const noted = recording(complete)
    const read = yield* Effect.provideService(all, ConfigProvider.ConfigProvider, noted.provider)
    return { ...read, ...(yield* resolved(read)), known: noted.asked }
  }).pipe(Effect.catchTag("ConfigError", inOneLine))
}

/** The settings of the database alone. Reading them creates no file. */
export const databaseSettings = Effect.gen(function* () {
  return yield* database
}).pipe(Effect.catchTag("ConfigError", inOneLine))

// The library's messages have several lines. None of them contains the value of a secret.
function inOneLine({ cause }: Config.ConfigError) {
  return Effect.fail(new ConfigurationError({ message: cause.message.replaceAll(/\s+/g, " ") }))
}

/** How many processes to start, and nothing else of what is set. */
export const processSetting = Effect.gen(function* () {
  return yield* processes
}).pipe(Effect.catchTag("ConfigError", inOneLine))

/** The part of a limit that one of so many processes has; at least `least`. */
export const partOf = (limit: number, processes: number, least = 1): number =>
  Math.max(least, Math.floor(limit / processes))

/** Rejects unsafe combinations and resolves the two URLs, which are origins with https unless they are loopback. */
const resolved = Effect.fnUntraced(function* ({ backup, bridge, database, erasure, http, mcp, oauth }: Read) {
  if (backup.folder !== undefined && backup.key === undefined) {
    return yield* invalid(
      "SERVICE_BACKUP_DIR needs SERVICE_BACKUP_KEY: 32 bytes or more, such as the output of openssl rand -base64 32."
    )
  }
  for (const [one, other, names] of [
    [bridge.enrollmentSecret, bridge.tokenSecret, "SERVICE_BRIDGE_ENROLLMENT_SECRET and SERVICE_BRIDGE_TOKEN_SECRET"],
    [bridge.enrollmentSecret, oauth.secret, "SERVICE_BRIDGE_ENROLLMENT_SECRET and SERVICE_OAUTH_SECRET"],
    [bridge.tokenSecret, oauth.secret, "SERVICE_BRIDGE_TOKEN_SECRET and SERVICE_OAUTH_SECRET"]
  ] as const) {
    if (other !== undefined && Redacted.value(one) === Redacted.value(other))
      return yield* invalid(`${names} must differ.`)
  }
  const host = http.host.includes(":") ? `[${http.host}]` : http.host
  const own = `http://${host}:${http.port}`
  if (http.baseUrl === undefined && !(URL.canParse(own) && isLoopback(new URL(own)))) {
    return yield* invalid("SERVICE_BASE_URL is required when SERVICE_HOST is not a loopback address.")
  }
  const baseUrl = yield* origin("SERVICE_BASE_URL", http.baseUrl ?? own)
  const authUrl = oauth.authUrl === undefined ? baseUrl : yield* origin("SERVICE_AUTH_URL", oauth.authUrl)
  // Registration lets anyone who can reach the service add a client, so it is on by default only for a local service.
  const local = database.url === undefined && isLoopback(baseUrl)
  const dynamicRegistration = Option.match(oauth.dynamicRegistration, {
    onNone: () => local,
    onSome: (value) => value === "on"
  })
  const identity = {
    environment: mcp.environment ?? (isLoopback(baseUrl) ? "development" : "production"),
    service_revision: mcp.revision
  }
  const erasureFile =
    erasure.file ?? (database.url === undefined ? join(database.dataDir, "erasures.jsonl") : undefined)
  return {
    baseUrl,
    authUrl,
    dynamicRegistration,
    erasureFile,
    resource: `${baseUrl.origin}/mcp`,
    identity
  } satisfies Resolved
})

const origin = Effect.fnUntraced(function* (name: string, text: string) {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.href !== `${url.origin}/`) {
    return yield* invalid(`${name} is an origin such as https://bridge.example.com, without path or query.`)
  }
  if (url.protocol !== "https:" && !isLoopback(url)) {
    return yield* invalid(`${name} must use https unless it is a loopback address.`)
  }
  return url
})

export const isLoopback = (url: URL): boolean =>
  url.hostname === "localhost" || url.hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(url.hostname)
