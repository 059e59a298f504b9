/**
 * The pages for people (spec 4.9), and the OpenAPI document. They are the same for every caller, so they are encoded once
 * and may be cached.
 */
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import { staticRoutes } from "../../platform/edge/StaticRoutes.ts"
import type { OpenApiDocument } from "./Endpoints.ts"
import { deploymentOf } from "./Deployment.ts"
import { docsHeaders, docsPage } from "./Docs.ts"
import { metadataOptions } from "../../signin/oauth/metadata/Metadata.ts"
import { openApiDocument } from "./OpenApiDocument.ts"
import { homePage } from "./Home.ts"
import { pageHeaders } from "../../platform/html/Page.ts"

const routes = HttpRouter.use(() =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const deployment = deploymentOf(settings)
    const serve = yield* staticRoutes
    const html = "text/html; charset=utf-8"
    yield* serve("/", html, homePage(deployment), pageHeaders)
    yield* serve("/docs", html, docsPage(deployment, OpenApi.fromApi(Api) as unknown as OpenApiDocument), docsHeaders)
    yield* serve("/openapi.json", "application/json", JSON.stringify(openApiDocument(metadataOptions(settings))))
  })
)

export const SiteHttp = Layer.mergeAll(
  routes,
  ...(["/", "/docs", "/openapi.json"] as const).map((path) => onlyMethods(path, ["GET"]))
)
