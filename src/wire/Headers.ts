/**
 * What an endpoint requires of a request before its handler runs. The contract declares the middlewares; the server
 * implements them.
 *
 * Order, outermost first: rate limits, credential, Idempotency-Key present, media type, size, body.
 */
import { Context, Effect, type Redacted, Schema } from "effect"
import { HttpApiMiddleware, HttpApiSchema, HttpApiSecurity } from "effect/http-api"
import type { CurrentGrant } from "./Actor.ts"
import { IdempotencyKey } from "./Ids.ts"

/** The raw bearer credential of the request: present, not checked yet. */
export class Bearer extends Context.Service<Bearer, Redacted.Redacted<string>>()("service/wire/Bearer") {}

/** Refuses a request without a bootstrap credential: `bridge_enrollment_credential_required`. */
export class BootstrapCredential extends HttpApiMiddleware.Service<BootstrapCredential, { provides: Bearer }>()(
  "service/wire/BootstrapCredential",
  { security: { bootstrap_credential: HttpApiSecurity.bearer } }
) {}

/** Refuses a request without a Bridge token: `bridge_token_invalid`. */
export class BridgeToken extends HttpApiMiddleware.Service<BridgeToken, { provides: Bearer }>()(
  "service/wire/BridgeToken",
  { security: { bridge_token: HttpApiSecurity.bearer } }
) {}

/**
 * Refuses a request without a valid OAuth access token (`unauthorized`), or whose token lacks `mobile:devices`
 * (`insufficient_scope`), before anything else of the request is read (spec 4.12, 5). Has the limits of
 * `LimitedByCredential`.
 */
export class PhoneCredential extends HttpApiMiddleware.Service<PhoneCredential, { provides: CurrentGrant }>()(
  "service/wire/PhoneCredential",
  { security: { access_token: HttpApiSecurity.bearer } }
) {}

/** Turns schema errors into `idempotency_key_required` or `invalid_request`. */
export class WellFormed extends HttpApiMiddleware.Service<WellFormed>()("service/wire/WellFormed") {}

/** `rate_limited` per client address. */
export class LimitedByAddress extends HttpApiMiddleware.Service<LimitedByAddress>()("service/wire/LimitedByAddress") {}

/** `rate_limited` per credential, and per client address for credentials that are refused. */
export class LimitedByCredential extends HttpApiMiddleware.Service<LimitedByCredential>()(
  "service/wire/LimitedByCredential"
) {}

export const IdempotencyHeaders = { "idempotency-key": IdempotencyKey }

/** The proof that the caller holds the key of the Bridge (RFC 9449 4.2). Checked with the token, not by its shape. */
export const ProofHeaders = {
  dpop: Schema.optional(Schema.String.annotate({ description: "a DPoP proof by the key of the Bridge" }))
}

/** `Idempotency-Replayed: true` marks the answer of an exact retry; its body is byte-identical to the first (spec 3.4). */
export const ReplayHeaders = { "idempotency-replayed": Schema.optional(Schema.Literal("true")) }

/** The result of an operation whose exact retries get the original answer. */
export interface Replayable<A> {
  readonly answer: A
  readonly replayed: boolean
}

/** The client as the edge sees it. */
export class Caller extends Context.Reference<{
  readonly address: string
  /** What limits count as one client: the address, or the /64 of an IPv6 address. */
  readonly network: string
  readonly userAgent: string
}>("service/wire/Caller", { defaultValue: () => ({ address: "", network: "", userAgent: "" }) }) {}

export const replayable = <A, E, R>(self: Effect.Effect<Replayable<A>, E, R>) =>
  Effect.map(self, ({ answer, replayed }) =>
    HttpApiSchema.withHeaders({
      body: answer,
      headers: replayed ? { "idempotency-replayed": "true" as const } : {}
    })
  )
