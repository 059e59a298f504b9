/** Routes whose answer is the same for every caller: encoded once, limited per address, and cacheable for five minutes. */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { sha256 } from "../crypto/Sha256.ts"
import { PageLimit } from "./PageLimit.ts"

export const staticRoutes = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const limited = yield* PageLimit
  return (
    path: HttpRouter.PathInput,
    contentType: string,
    content: string | Uint8Array,
    more: Readonly<Record<string, string>> = {}
  ) => {
    const bytes = Buffer.from(content)
    const etag = `"${Buffer.from(sha256(bytes)).toString("base64url").slice(0, 22)}"`
    const headers = { ...more, "cache-control": "public, max-age=300", etag }
    const whole = HttpServerResponse.uint8Array(bytes, { headers, contentType })
    const notModified = HttpServerResponse.empty({ status: 304, headers })
    return router.add(
      "GET",
      path,
      limited(
        Effect.map(HttpServerRequest.HttpServerRequest, (request) =>
          matches(request.headers["if-none-match"], etag) ? notModified : whole
        )
      )
    )
  }
})

/** Weak comparison (RFC 9110 13.1.2): a proxy that compresses may have marked the tag as weak. */
const matches = (header: string | undefined, etag: string) =>
  (header ?? "").split(",").some((one) => ["*", etag, `W/${etag}`].includes(one.trim()))
