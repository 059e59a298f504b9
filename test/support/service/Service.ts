/** The whole service on a test database: real handlers, real PostgreSQL, real HTTP. TestClock controls expiry. */
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import type { served } from "../../../cli/support/remote/Served.ts"
import { everything } from "../../../src/App.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { connected, type Database } from "../../../src/platform/database/Database.ts"
import { http } from "../../../src/Http.ts"
import { Shortcuts } from "../../../src/platform/edge/compiled/Compiled.ts"
import { logLevel } from "../../../src/platform/process/Logging.ts"
import { Workers } from "../../../src/platform/workers/Workers.ts"
import { conflicts } from "./Conflicts.ts"
import { servingAccount, TestDatabase } from "../database/TestDatabase.ts"

export const environment = {
  SERVICE_BRIDGE_ENROLLMENT_SECRET: "enrollment-secret-of-the-tests-0123456789",
  SERVICE_BRIDGE_TOKEN_SECRET: "token-secret-of-the-tests-0123456789abcdef",
  SERVICE_OAUTH_SECRET: "oauth-secret-of-the-tests-0123456789abcdef",
  SERVICE_BASE_URL: "http://127.0.0.1:8787",
  SERVICE_PORT: "0",
  SERVICE_RATE_LIMITS: "off",
  SERVICE_LOG_LEVEL: "Error",
  DATABASE_URL: "postgres://unused"
}

const unchanged = Layer.effect(SqlClient.SqlClient, Effect.service(SqlClient.SqlClient))

/** The service over the connections of a pool. `between` wraps its SqlClient, for example to inject faults. */
export const over = (
  address: TestDatabase["Service"],
  settings: Readonly<Record<string, string>>,
  between: Layer.Layer<SqlClient.SqlClient, never, SqlClient.SqlClient | Database> = unchanged,
  commands: Layer.Layer<never, never, Layer.Services<typeof served>> = Layer.empty
) =>
  http.pipe(
    Layer.provide(commands),
    Layer.provideMerge(everything),
    Layer.provideMerge(DatabaseClock.layerLocal),
    Layer.provideMerge(conflicts),
    Layer.provideMerge(between),
    Layer.provideMerge(connected({ ...address, username: servingAccount }, { poolSize: 10, pooler: false })),
    Layer.provideMerge(logLevel),
    Layer.provideMerge(Workers.layer),
    Layer.provideMerge(Settings.layer),
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, ...settings })))
  )

/** One instance, listening on a free port. Several instances on one database are replicas. */
export const instance = (
  settings: Readonly<Record<string, string>> = {},
  between: Parameters<typeof over>[2] = unchanged,
  /** The commands for operators elsewhere; by default none. */
  commands: Parameters<typeof over>[3] = Layer.empty
) =>
  Effect.gen(function* () {
    const layer = over(yield* TestDatabase, settings, between, commands)
    const services = yield* Effect.updateService(
      Layer.build(Layer.fresh(layer)),
      Shortcuts,
      (compiles) => compiles && process.env["EDGE"] !== "router"
    )
    const { address: listening } = Context.get(services, HttpServer.HttpServer)
    const port = listening._tag === "UnixPathAddress" ? 0 : listening.port
    return { url: `http://127.0.0.1:${port}`, services }
  })

/** The service under test of a `layer(Service.layer)` block. */
export class Service extends Context.Service<Service, Effect.Success<ReturnType<typeof instance>>>()("test/Service") {
  static readonly layer = Layer.effect(Service, instance()).pipe(Layer.provideMerge(TestDatabase.sql))
}
