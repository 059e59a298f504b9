/** What `doctor` looks at: configuration, secrets, lifetimes, files, database. It creates nothing, and migrates nothing. */
import { Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { join } from "node:path"
import { databasePlace, isLoopback, Settings, unusualLifetimes } from "../src/Config.ts"
import { DatabaseClock } from "../src/database/Clock.ts"
import { Database, durability, reachable } from "../src/database/Database.ts"
import { review } from "../src/database/Migrations.ts"
import { longPersistence } from "../src/database/Persistence.ts"
import { rows } from "../src/wire/Rows.ts"

interface Check {
  readonly name: string
  readonly status: "ok" | "warn" | "fail"
  /** What is, and what to do about it. */
  readonly message: string
}
const check = (name: string, status: Check["status"], message: string): Check => ({ name, status, message })

export const examination = Effect.suspend(() => all).pipe(
  Effect.catch((error) => Effect.succeed([check("configuration", "fail", error.message)])),
  Effect.map((checks) => ({ ok: checks.every(({ status }) => status !== "fail"), checks }))
)

const all = Effect.gen(function* () {
  const { dataDir, url } = yield* databasePlace
  if (url === undefined && !fs.existsSync(join(dataDir, "secrets.env"))) {
    return [
      check("data_folder", "warn", `${dataDir} holds no service yet: npm start, or any other command, begins one.`)
    ]
  }
  return yield* Effect.provide(configured(dataDir, url === undefined), Settings.layer)
})

const configured = Effect.fnUntraced(function* (dataDir: string, embedded: boolean) {
  const settings = yield* Settings
  const database = yield* ofDatabase.pipe(
    Effect.provide(DatabaseClock.layer.pipe(Layer.provideMerge(Database.layer))),
    Effect.catch((error) => Effect.succeed([check("database", "fail", error.message)]))
  )
  return [
    check("configuration", "ok", `Complete; the service is at ${settings.baseUrl.origin}.`),
    secrets(settings),
    ...proxy(settings),
    ...(yield* reached(settings)),
    ...unusualLifetimes(settings).map((sentence) => check("lifetimes", "warn", sentence)),
    ...(embedded ? [files(dataDir), space(dataDir)] : []),
    ...database
  ]
})

/** Ten different bytes among 32 random ones is certain, in every usual encoding; in typed ones it is rare. */
const secrets = ({ bridge }: Settings["Service"]) => {
  const weak = Object.entries({
    SERVICE_BRIDGE_ENROLLMENT_SECRET: bridge.enrollmentSecret,
    SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: bridge.enrollmentSecretPrevious,
    SERVICE_BRIDGE_TOKEN_SECRET: bridge.tokenSecret,
    SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: bridge.tokenSecretPrevious
  }).flatMap(([name, secret]) => (secret && new Set(Redacted.value(secret)).size < 10 ? [name] : []))
  return weak.length === 0
    ? check("secrets", "ok", "At least 32 bytes each, and different.")
    : check("secrets", "fail", `${weak.join(", ")}: easy to guess; use the output of: openssl rand -base64 32`)
}

/** TLS ends in front of the service, so with an https address somebody else's connection reaches it. */
const proxy = ({ baseUrl, http }: Settings["Service"]) => {
  if (baseUrl.protocol !== "https:") return []
  if (http.trustedProxies.length === 0) {
    const message = "SERVICE_TRUSTED_PROXIES is empty: all callers share the proxy's address, and its rate limits."
    return [check("proxy", "warn", `${message} Name the proxy, such as 127.0.0.1.`)]
  }
  return http.trustedProxies.some((network) => /\/0$/.test(network))
    ? [check("proxy", "fail", "SERVICE_TRUSTED_PROXIES trusts everybody: any caller may choose its address.")]
    : [check("proxy", "ok", "X-Forwarded-For is believed from the networks that are named.")]
}

/** Whether the address that clients are given leads to a service that runs, certificate included. */
const reached = Effect.fnUntraced(function* ({ baseUrl }: Settings["Service"]) {
  if (isLoopback(baseUrl)) return []
  return yield* Effect.tryPromise({
    try: (signal) => fetch(new URL("/healthz", baseUrl), { signal, redirect: "manual" }),
    catch: (error) => String((error as { readonly cause?: { readonly code?: string } }).cause?.code ?? "no answer")
  }).pipe(
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail("no answer in 5 s") }),
    Effect.match({
      onSuccess: ({ status }) =>
        status === 200
          ? [check("base_url", "ok", `${baseUrl.origin} answers, and its certificate is good.`)]
          : [check("base_url", "warn", `${baseUrl.origin}/healthz answers ${status}: does the proxy lead here?`)],
      onFailure: (reason) => [
        check(
          "base_url",
          "warn",
          `${baseUrl.origin} cannot be reached from here (${reason}): name, proxy, certificate?`
        )
      ]
    })
  )
})

const files = (dataDir: string) => {
  const file = join(dataDir, "secrets.env")
  if ((fs.statSync(file).mode & 0o077) !== 0) {
    return check("data_folder", "fail", `${file} is open to other accounts: chmod 600 ${file}`)
  }
  return (fs.statSync(dataDir).mode & 0o022) === 0
    ? check("data_folder", "ok", `${dataDir} and its secrets belong to this service alone.`)
    : check("data_folder", "fail", `Other accounts may write to ${dataDir}: chmod go-w ${dataDir}`)
}

const space = (dataDir: string) => {
  const location = join(dataDir, "location")
  const { bavail, bsize } = fs.statfsSync(fs.existsSync(location) ? fs.readFileSync(location, "utf8").trim() : dataDir)
  const free = Math.floor((bavail * bsize) / 1_048_576)
  const status = free < 100 ? "fail" : free < 1024 ? "warn" : "ok"
  return check("disk", status, `${free} MiB are free${status === "ok" ? "." : "; make room for the database."}`)
}

const ofDatabase = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const clock = yield* DatabaseClock
  yield* reachable
  const inside = yield* dedicated(Effect.all([serverVersion, durable, migrations])).pipe(longPersistence)
  return [...inside, timeOf(yield* clock.offset)]
})

const serverVersion = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* rows(Schema.Struct({ number: Schema.Int, name: Schema.String }))(
    sql`select current_setting('server_version_num')::int as number, current_setting('server_version') as name`
  )
  return server!.number >= 140_000
    ? check("database", "ok", `PostgreSQL ${server!.name} answers.`)
    : check("database", "fail", `PostgreSQL ${server!.name} is too old: use 14 or newer.`)
})

const durable = Effect.map(durability, (settings) => {
  const off = settings.filter(({ setting }) => setting === "off").map(({ name }) => name)
  return off.length === 0
    ? check("durability", "ok", "What was acknowledged survives a power cut.")
    : check("durability", "fail", `Turn on ${off.join(", ")}: a power cut can undo revocations.`)
})

const migrations = Effect.map(review(), ({ changed, pending }) => {
  if (changed.length > 0)
    return check("migrations", "fail", `Changed after they ran: ${changed.join(", ")}; restore them.`)
  return pending.length === 0
    ? check("migrations", "ok", "The schema is up to date.")
    : check("migrations", "warn", `Not run yet: ${pending.join(", ")}; service-admin migrate, or the next start, does.`)
})

const timeOf = (offset: number) => {
  const seconds = (Math.abs(offset) / 1000).toFixed(1)
  return Math.abs(offset) <= 1000
    ? check("clock", "ok", "This machine and the database agree on the time.")
    : check(
        "clock",
        "warn",
        `The database is ${seconds} s ${offset > 0 ? "ahead" : "behind"}: its time counts; set this machine's.`
      )
}
