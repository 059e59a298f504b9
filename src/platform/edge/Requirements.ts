/** Implements what wire/Headers.ts requires of a request before a secret is checked or a row is read. */
import { Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import { refuse } from "../../wire/Errors.ts"
import { LimitedByAddress, WellFormed } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { limitedTo, RateLimit } from "./RateLimit.ts"

const wellFormed = HttpApiMiddleware.layerSchemaErrorTransform(WellFormed, (error) => {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return Effect.die(error)
  return Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const keyMissing = error.kind === "Headers" && (headers["idempotency-key"] ?? "").trim() === ""
    return answer(refuse(keyMissing ? "idempotency_key_required" : "invalid_request"))
  })
})

const limitedByAddress = Layer.effect(
  LimitedByAddress,
  Effect.map(RateLimit, ({ buckets }) => limitedTo(buckets({ perSecond: 100, burst: 1000 })))
)

export const requirements = Layer.merge(wellFormed, limitedByAddress)
