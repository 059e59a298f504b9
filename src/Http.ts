/** Mounts the routes of every domain behind the edge, and listens. */
import { ByteSize, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CallBudget } from "./agents/mcp/calls/CallBudget.ts"
import { McpHttp } from "./agents/mcp/Http.ts"
import { EnrollmentHttp } from "./bridges/enrollment/Http.ts"
import { KeysHttp } from "./bridges/keys/Http.ts"
import { bridgeRequirements } from "./bridges/Requirements.ts"
import { RetiredHttp, RotationHttp } from "./bridges/rotation/Http.ts"
import { ConsoleHttp } from "./people/console/Http.ts"
import { CommandsHttp } from "./people/operator/CommandsHttp.ts"
import { MobileHttp } from "./people/mobile/Http.ts"
import { SiteHttp } from "./people/site/Http.ts"
import { Addresses } from "./platform/edge/Addresses.ts"
import { Attempts } from "./platform/edge/limits/Attempts.ts"
import { MemoryBudget } from "./platform/edge/limits/MemoryBudget.ts"
import { Boundary, boundary } from "./platform/edge/Boundary.ts"
import { compiled, CompiledEdge } from "./platform/edge/compiled/Compiled.ts"
import { HealthHttp } from "./platform/edge/routes/Health.ts"
import { listener } from "./platform/edge/Listener.ts"
import { onlyDeclaredMethods } from "./platform/edge/routes/Methods.ts"
import { PageLimit } from "./platform/edge/limits/PageLimit.ts"
import { RateLimit } from "./platform/edge/limits/RateLimit.ts"
import { Shares } from "./platform/database/Shares.ts"
import { requirements } from "./platform/edge/Requirements.ts"
import { AccessHttp } from "./signin/access/Http.ts"
import { ConsentHttp } from "./signin/oauth/consent/Http.ts"
import { PasskeysHttp } from "./signin/passkeys/Http.ts"
import { OAuthHttp } from "./signin/oauth/Http.ts"
import { Api } from "./wire/Api.ts"

export const routes = Layer.mergeAll(
  Layer.merge(HttpApiBuilder.layer(Api), compiled(Api)).pipe(
    Layer.provide([EnrollmentHttp, RotationHttp, KeysHttp, RetiredHttp, MobileHttp]),
    Layer.provide([requirements, bridgeRequirements, AccessHttp])
  ),
  onlyDeclaredMethods(Api),
  McpHttp,
  OAuthHttp,
  ConsentHttp,
  CommandsHttp,
  ConsoleHttp,
  PasskeysHttp,
  SiteHttp,
  HealthHttp,
  boundary
).pipe(
  Layer.provide([Attempts.layer, CallBudget.layer, CompiledEdge.layer]),
  Layer.provide(Boundary.layer),
  Layer.provide(PageLimit.layer),
  Layer.provide([Addresses.layer, MemoryBudget.layer, RateLimit.layer, Shares.layer])
)

/** Case-sensitive and strict about slashes, so that a resource has one address (decisions.md, Paths). */
const routerConfig = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false }

export const http = HttpRouter.serve(routes, { disableListenLog: true, disableLogger: true, routerConfig }).pipe(
  Layer.provide(Layer.succeed(HttpServerRequest.MaxBodySize, ByteSize.fromInputUnsafe(16 * 1024))),
  // The library's span records URL and headers, which can hold secrets. Boundary.ts makes a span without them.
  Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
  Layer.provideMerge(Layer.provide(listener, Addresses.layer))
)
