/** Implements the middlewares of wire/Headers.ts that need only the request: they check no secret and read no row. */
import { Effect, Layer, Redacted } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import { sha256 } from "../crypto/Sha256.ts"
import { refuse } from "../../wire/Errors.ts"
import { Bearer, Caller, LimitedByAddress, LimitedByCredential, WellFormed } from "../../wire/Headers.ts"
import { answer, type Refusal } from "../../wire/Refusal.ts"
import { type Rate, RateLimit } from "./RateLimit.ts"

/** Provides the request's bearer credential without checking it; answers `refusal` if the request has none. */
export const present =
  (refusal: Refusal) =>
  <E, R>(
    handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
    { credential }: { readonly credential: Redacted.Redacted<string> }
  ) =>
    Redacted.value(credential).trim() === ""
      ? Effect.succeed(answer(refusal))
      : Effect.provideService(handled, Bearer, credential)

const wellFormed = HttpApiMiddleware.layerSchemaErrorTransform(WellFormed, (error) => {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return Effect.die(error)
  return Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const keyMissing = error.kind === "Headers" && (headers["idempotency-key"] ?? "").trim() === ""
    return answer(refuse(keyMissing ? "idempotency_key_required" : "invalid_request"))
  })
})

const limited = (rate: Rate, keyOf: Effect.Effect<string, never, HttpServerRequest.HttpServerRequest>) =>
  Effect.gen(function* () {
    const limits = yield* RateLimit
    return <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.gen(function* () {
        const seconds = yield* limits.take(yield* keyOf, rate)
        return seconds === 0 ? yield* handled : answer(refuse("rate_limited", seconds))
      })
  })

const limitedByAddress = Layer.effect(
  LimitedByAddress,
  limited(
    { perSecond: 100, burst: 1000 },
    Effect.map(Caller, ({ address }) => address)
  )
)

// The bucket's key is a hash, so that no credential stays in memory after its request.
const limitedByCredential = Layer.effect(
  LimitedByCredential,
  limited(
    { perSecond: 20, burst: 200 },
    Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
      Buffer.from(sha256(headers["authorization"] ?? "")).toString("base64")
    )
  )
)

export const requirements = Layer.mergeAll(wellFormed, limitedByAddress, limitedByCredential)
