/** The pages for people (spec 4.9). They say nothing of who asks, so they are made once and may be kept for a while. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import type { OpenApiDocument } from "./Contract.ts"
import { deploymentOf } from "./Deployment.ts"
import { docsHeaders, docsPage } from "./Docs.ts"
import { homePage } from "./Home.ts"
import { pageHeaders } from "../../platform/html/Page.ts"

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const deployment = deploymentOf(settings)
    const secure = settings.baseUrl.protocol === "https:"

    const serve = (path: HttpRouter.PathInput, text: string, policy: Readonly<Record<string, string>>) => {
      const etag = `"${Buffer.from(sha256(text)).toString("base64url").slice(0, 22)}"`
      const headers = { ...policy, "cache-control": "public, max-age=300", etag }
      const whole = HttpServerResponse.text(text, { headers, contentType: "text/html; charset=utf-8" })
      const unchanged = HttpServerResponse.empty({ status: 304, headers })
      return router.add(
        "GET",
        path,
        Effect.map(HttpServerRequest.HttpServerRequest, (request) =>
          names(request.headers["if-none-match"], etag) ? unchanged : whole
        )
      )
    }

    yield* serve("/", homePage(deployment), pageHeaders(secure))
    yield* serve("/docs", docsPage(deployment, OpenApi.fromApi(Api) as unknown as OpenApiDocument), docsHeaders(secure))
  })
)

export const SiteHttp = Layer.mergeAll(routes, onlyMethods("/", ["GET"]), onlyMethods("/docs", ["GET"]))

/** Compared weakly (RFC 9110 13.1.2): a proxy that compresses may have weakened it. */
const names = (header: string | undefined, etag: string) =>
  (header ?? "").split(",").some((one) => ["*", etag, `W/${etag}`].includes(one.trim()))
