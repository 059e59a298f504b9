/**
 * The pages for people (spec 4.9), and the OpenAPI document. They are the same for every caller, so they are encoded once
 * and may be cached.
 */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import { PageLimit } from "../../platform/edge/PageLimit.ts"
import type { OpenApiDocument } from "./Endpoints.ts"
import { deploymentOf } from "./Deployment.ts"
import { docsHeaders, docsPage } from "./Docs.ts"
import { homePage } from "./Home.ts"
import { pageHeaders } from "../../platform/html/Page.ts"

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const deployment = deploymentOf(settings)

    const limited = yield* PageLimit

    const serve = (
      path: HttpRouter.PathInput,
      contentType: string,
      text: string,
      policy: Readonly<Record<string, string>> = {}
    ) => {
      const bytes = Buffer.from(text)
      const etag = `"${Buffer.from(sha256(text)).toString("base64url").slice(0, 22)}"`
      const headers = { ...policy, "cache-control": "public, max-age=300", etag }
      const page = HttpServerResponse.uint8Array(bytes, { headers, contentType })
      const notModified = HttpServerResponse.empty({ status: 304, headers })
      return router.add(
        "GET",
        path,
        limited(
          Effect.map(HttpServerRequest.HttpServerRequest, (request) =>
            matches(request.headers["if-none-match"], etag) ? notModified : page
          )
        )
      )
    }

    const html = "text/html; charset=utf-8"
    const openApi = OpenApi.fromApi(Api)
    yield* serve("/", html, homePage(deployment), pageHeaders)
    yield* serve("/docs", html, docsPage(deployment, openApi as unknown as OpenApiDocument), docsHeaders)
    yield* serve("/openapi.json", "application/json", JSON.stringify(openApi))
  })
)

export const SiteHttp = Layer.mergeAll(
  routes,
  ...(["/", "/docs", "/openapi.json"] as const).map((path) => onlyMethods(path, ["GET"]))
)

/** Weak comparison (RFC 9110 13.1.2): a proxy that compresses may have marked the tag as weak. */
const matches = (header: string | undefined, etag: string) =>
  (header ?? "").split(",").some((one) => ["*", etag, `W/${etag}`].includes(one.trim()))
