/** Implements what wire/Headers.ts requires of a request before a secret is checked or a row is read. */
import { Effect, Layer, type SchemaIssue } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import { refuse } from "../../wire/Errors.ts"
import { LimitedByAddress, WellFormed } from "../../wire/Headers.ts"
import { firstIssue } from "../../wire/Issue.ts"
import { answer, withDetails } from "../../wire/Refusal.ts"
import { limitedTo, RateLimit } from "./limits/RateLimit.ts"

const wellFormed = HttpApiMiddleware.layerSchemaErrorTransform(WellFormed, (error) => {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return Effect.die(error)
  return Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const keyMissing = error.kind === "Headers" && (headers["idempotency-key"] ?? "").trim() === ""
    if (keyMissing) return answer(refuse("idempotency_key_required"))
    return answer(error.kind === "Payload" ? malformed(error.cause.issue) : refuse("invalid_request"))
  })
})

/** Names the field of the body and what is expected of it, but never repeats what was sent. */
const malformed = (issue: SchemaIssue.Issue) => {
  const refusal = refuse("invalid_request")
  const [field, reason] = firstIssue(issue)
  return field === "" ? refusal : withDetails(refusal, {}, `${refusal.message} ${field}: ${reason}.`)
}

const limitedByAddress = Layer.effect(
  LimitedByAddress,
  Effect.map(RateLimit, ({ networks }) => limitedTo(networks({ perSecond: 100, burst: 1000 })))
)

export const requirements = Layer.merge(wellFormed, limitedByAddress)
