/** The pages for people (spec 4.9). They are the same for every caller, so they are rendered once and may be cached. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import type { OpenApiDocument } from "./Endpoints.ts"
import { deploymentOf } from "./Deployment.ts"
import { docsHeaders, docsPage } from "./Docs.ts"
import { homePage } from "./Home.ts"
import { pageHeaders } from "../../platform/html/Page.ts"

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const deployment = deploymentOf(settings)

    const serve = (path: HttpRouter.PathInput, text: string, policy: Readonly<Record<string, string>>) => {
      const etag = `"${Buffer.from(sha256(text)).toString("base64url").slice(0, 22)}"`
      const headers = { ...policy, "cache-control": "public, max-age=300", etag }
      const page = HttpServerResponse.text(text, { headers, contentType: "text/html; charset=utf-8" })
      const notModified = HttpServerResponse.empty({ status: 304, headers })
      return router.add(
        "GET",
        path,
        Effect.map(HttpServerRequest.HttpServerRequest, (request) =>
          matches(request.headers["if-none-match"], etag) ? notModified : page
        )
      )
    }

    yield* serve("/", homePage(deployment), pageHeaders)
    yield* serve("/docs", docsPage(deployment, OpenApi.fromApi(Api) as unknown as OpenApiDocument), docsHeaders)
  })
)

export const SiteHttp = Layer.mergeAll(routes, onlyMethods("/", ["GET"]), onlyMethods("/docs", ["GET"]))

/** Weak comparison (RFC 9110 13.1.2): a proxy that compresses may have marked the tag as weak. */
const matches = (header: string | undefined, etag: string) =>
  (header ?? "").split(",").some((one) => ["*", etag, `W/${etag}`].includes(one.trim()))
