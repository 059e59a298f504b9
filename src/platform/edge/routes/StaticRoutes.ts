/** Routes whose answer is the same for every caller: made once, limited per address, and cacheable for five minutes. */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { sha256 } from "../../crypto/Sha256.ts"
import { PageLimit } from "../limits/PageLimit.ts"

export const staticRoutes = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const limited = yield* PageLimit
  /** An effect runs when the path is first asked for. */
  return (
    path: HttpRouter.PathInput,
    contentType: string,
    content: string | Uint8Array | Effect.Effect<string | Uint8Array>,
    more: Readonly<Record<string, string>> = {}
  ) => {
    const answers = (body: string | Uint8Array) => {
      const bytes = Buffer.from(body)
      const etag = `"${Buffer.from(sha256(bytes)).toString("base64url").slice(0, 22)}"`
      const headers = { ...more, "cache-control": "public, max-age=300", etag }
      return {
        etag,
        whole: HttpServerResponse.uint8Array(bytes, { headers, contentType }),
        notModified: HttpServerResponse.empty({ status: 304, headers })
      }
    }
    return Effect.flatMap(
      Effect.cached(Effect.map(Effect.isEffect(content) ? content : Effect.succeed(content), answers)),
      (made) =>
        router.add(
          "GET",
          path,
          limited(
            Effect.gen(function* () {
              const { headers } = yield* HttpServerRequest.HttpServerRequest
              const { etag, notModified, whole } = yield* made
              return matches(headers["if-none-match"], etag) ? notModified : whole
            })
          )
        )
    )
  }
})

/** Characters of If-None-Match that are read: some forty tags. Clients send one. */
const longestRead = 1000

/** Weak comparison (RFC 9110 13.1.2): a proxy that compresses may have marked the tag as weak. */
const matches = (header: string | undefined, etag: string) =>
  (header ?? "")
    .slice(0, longestRead)
    .split(",")
    .some((one) => ["*", etag, `W/${etag}`].includes(one.trim()))
