/**
 * The codes that all endpoints share: refusals of the edge, and failures of a dependency. Spec 7.2 names `idempotency_*`
 * and `bridge_persistence_error`; the others are additions (decisions.md, Codes that the specification does not name).
 */
import { fromTable, type RefusalOf } from "./Refusal.ts"

export const sharedTable = {
  /** The body, a header or a parameter does not have the documented shape. */
  invalid_request: [400, "The request is malformed; compare it with the protocol description.", "report"],
  /** The operation has to recognise retries, and the request has no key. */
  idempotency_key_required: [400, "Send an Idempotency-Key header and repeat it on every retry.", "report"],
  /** The one answer to missing, malformed, expired and unknown credentials of projects and agents. */
  unauthorized: [401, "The request carries no valid credential.", "report"],
  insufficient_scope: [403, "The credential lacks a scope that this operation needs.", "report"],
  not_found: [404, "Nothing is served at this address.", "report"],
  method_not_allowed: [405, "The method is not allowed here; see the Allow header.", "report"],
  payload_too_large: [413, "The request body is larger than this endpoint accepts.", "report"],
  unsupported_media_type: [415, "Send the body as application/json.", "report"],
  /** The key was used for another request of the same operation. */
  idempotency_conflict: [422, "This Idempotency-Key belongs to a different request.", "report"],
  /** A private key or a credential stands in text that would be stored (spec 1.5). The message names field and kind. */
  secret_detected: [422, "The text contains a secret; leave it out. Nothing was stored.", "report"],
  rate_limited: [429, "Too many requests; wait as long as Retry-After says.", "retry"],
  internal_error: [500, "The service failed; quote the X-Request-Id to its operator.", "retry"],
  /** The database did not answer, or an original response can no longer be reproduced. The change may have happened. */
  bridge_persistence_error: [
    503,
    "The service cannot answer from its data now; retry with the same Idempotency-Key.",
    "retry"
  ]
} as const

export type SharedRefusal<Code extends keyof typeof sharedTable = keyof typeof sharedTable> = RefusalOf<
  typeof sharedTable,
  Code
>
export const { refuse, refusals } = fromTable(sharedTable)
