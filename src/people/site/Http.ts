/**
 * The pages for people (spec 4.9), and the OpenAPI document. They are the same for every caller, so they are made once and
 * may be cached.
 */
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { onlyMethods } from "../../platform/edge/routes/Methods.ts"
import { staticRoutes } from "../../platform/edge/routes/StaticRoutes.ts"
import type { OpenApiDocument } from "./Endpoints.ts"
import { deploymentOf } from "./Deployment.ts"
import { docs, docsHeaders } from "./Docs.ts"
import { entries, examples } from "./docs/Contents.ts"
import { metadataOptions } from "../../signin/oauth/metadata/Metadata.ts"
import { openApiDocument } from "./OpenApiDocument.ts"
import { homePage } from "./Home.ts"
import { png, svg } from "./Icon.ts"
import { pageHeaders } from "../../platform/html/Page.ts"
import { pageText } from "../../platform/settings/Texts.ts"

const fileHeaders = { "content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff" }

const routes = HttpRouter.use(() =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const deployment = deploymentOf(settings)
    const serve = yield* staticRoutes
    const html = "text/html; charset=utf-8"
    yield* serve("/", html, homePage(deployment), pageHeaders)
    const { pages, search, start } = docs(deployment, OpenApi.fromApi(Api) as unknown as OpenApiDocument)
    yield* serve("/docs", html, start, docsHeaders)
    for (const [path, page] of pages) yield* serve(path, html, page, docsHeaders)
    for (const { file, path } of examples) {
      yield* serve(
        path,
        "text/plain; charset=utf-8",
        Effect.sync(() => pageText(file)),
        fileHeaders
      )
    }
    yield* serve("/docs/search.json", "application/json", search)
    yield* serve("/favicon.svg", "image/svg+xml", svg, fileHeaders)
    yield* serve("/favicon.ico", "image/png", png(48, "icon"), fileHeaders)
    yield* serve("/openapi.json", "application/json", JSON.stringify(openApiDocument(metadataOptions(settings))))
  })
)

/** The paths of this site. */
export const sitePaths = [
  "/",
  "/docs",
  "/docs/search.json",
  "/favicon.svg",
  "/favicon.ico",
  "/openapi.json",
  ...[...entries, ...examples].map(({ path }) => path)
] as const

export const SiteHttp = Layer.mergeAll(routes, ...sitePaths.map((path) => onlyMethods(path, ["GET"])))
