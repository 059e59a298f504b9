/** Mounts every domain's routes behind the edge and listens. */
import { NodeHttpServer } from "@effect/platform-node"
import { ByteSize, Effect, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { createServer } from "node:http"
import { AccessHttp } from "./signin/access/Http.ts"
import { Api } from "./wire/Api.ts"
import { Settings } from "./platform/settings/Settings.ts"
import { review } from "./platform/database/Migrations.ts"
import { Addresses } from "./platform/edge/Addresses.ts"
import { boundary } from "./platform/edge/Boundary.ts"
import { onlyDeclaredMethods, onlyMethods } from "./platform/edge/Methods.ts"
import { RateLimit } from "./platform/edge/RateLimit.ts"
import { requirements } from "./platform/edge/Requirements.ts"
import { bridgeRequirements } from "./bridges/Requirements.ts"
import { EnrollmentHttp } from "./bridges/enrollment/Http.ts"
import { McpHttp } from "./agents/mcp/Http.ts"
import { MobileHttp } from "./people/mobile/Http.ts"
import { ConsentHttp } from "./signin/oauth/consent/Http.ts"
import { OAuthHttp } from "./signin/oauth/Http.ts"
import { RetiredHttp, RotationHttp } from "./bridges/rotation/Http.ts"
import { SiteHttp } from "./people/site/Http.ts"
import { refuse } from "./wire/Errors.ts"
import { answer } from "./wire/Refusal.ts"

const ok = HttpServerResponse.jsonUnsafe({ status: "ok" }, { headers: { "cache-control": "no-store" } })

/** Shallow liveness (spec 4.9): the process answers; the database is not asked. */
const healthz = HttpRouter.add("GET", "/healthz", Effect.succeed(ok))

/** Whether this process can serve: the database answers and has every migration. */
const readyz = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const ready = review().pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.map(({ pending }) => pending.length === 0),
      Effect.timeout("2 seconds"),
      Effect.catchCause(() => Effect.succeed(false))
    )
    yield* router.add(
      "GET",
      "/readyz",
      Effect.map(ready, (is) => (is ? ok : answer(refuse("bridge_persistence_error", 1))))
    )
  })
)

/** Every route there is. */
export const routes = Layer.mergeAll(
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide([EnrollmentHttp, RotationHttp, RetiredHttp, MobileHttp]),
    Layer.provide([requirements, bridgeRequirements, AccessHttp])
  ),
  onlyDeclaredMethods(Api),
  McpHttp,
  OAuthHttp,
  ConsentHttp,
  SiteHttp,
  healthz,
  readyz,
  ...["/healthz", "/readyz", "/openapi.json"].map((path) => onlyMethods(path as HttpRouter.PathInput, ["GET"])),
  boundary
).pipe(Layer.provide([Addresses.layer, RateLimit.layer]))

/** Case-sensitive and strict about slashes, so that one resource has one address. */
const routerConfig = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false }

/** What does not finish its request is gone within 10 s: 5 s for the headers, 8 s for all of it, looked at every second. */
const server = (connections: number) => () => {
  const server = createServer({
    headersTimeout: 5_000,
    requestTimeout: 8_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 65_000
  })
  // More are closed at once, before they cost memory.
  server.maxConnections = connections
  // A connection that falls idle while the server stops would hold it up for the rest of its keep-alive.
  return server.on("request", (_, response) =>
    response.once("finish", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections())
    })
  )
}

const listener = Layer.unwrap(
  Effect.map(Settings, ({ http }) =>
    NodeHttpServer.layer(server(http.connections), {
      host: http.host,
      port: http.port,
      gracefulShutdownTimeout: "10 seconds"
    })
  )
)

export const http = HttpRouter.serve(routes, { disableListenLog: true, disableLogger: true, routerConfig }).pipe(
  Layer.provide(Layer.succeed(HttpServerRequest.MaxBodySize, ByteSize.fromInputUnsafe(16 * 1024))),
  // Its spans carry URL and headers as they came; the boundary has one of its own.
  Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
  Layer.provideMerge(listener)
)
