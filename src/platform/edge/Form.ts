/** The body of an application/x-www-form-urlencoded request. */
import { Data, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"

export class FormError extends Data.TaggedError("FormError")<{
  readonly reason: "media_type" | "too_large" | "unreadable"
}> {}

/** Several times as many as any form has. Each costs as much as a hundred bytes, and 128 KiB hold 65,000. */
const mostFields = 100

export const readForm = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<URLSearchParams, FormError> => {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    return new FormError({ reason: "media_type" })
  }
  return Effect.matchEffect(request.text, {
    onSuccess: fieldsOf,
    onFailure: (error) => new FormError({ reason: isTooLarge(error) ? "too_large" : "unreadable" })
  })
}

const fieldsOf = (text: string): Effect.Effect<URLSearchParams, FormError> => {
  if (text.split("&", mostFields + 1).length > mostFields) return new FormError({ reason: "unreadable" })
  // In a form a leading "?" is data. URLSearchParams would drop it as the start of a query.
  return Effect.succeed(new URLSearchParams(text.replace(/^\?/, "%3F")))
}

export const isTooLarge = (error: { readonly reason: object }): boolean =>
  "cause" in error.reason &&
  typeof error.reason.cause === "object" &&
  error.reason.cause !== null &&
  "_tag" in error.reason.cause &&
  error.reason.cause._tag === "MaxBytesError"
