/**
 * The state that a Bridge stores: one document that is replaced as a whole, so that no crash leaves a step half done.
 *
 * It holds no nonce and no signature (spec 1.5): a retried challenge returns the same nonce, and Ed25519 signs it the same
 * way again. It does not hold the bootstrap credential either, which stays in the operator's file.
 */
import { Schema } from "effect"
import { BridgeId, Fingerprint, IdempotencyKey, Uuid } from "../../wire/Ids.ts"
import { storedText } from "../../wire/Text.ts"

/** The origin of the service. It needs https because requests carry bearer tokens; loopback addresses may use http. */
export const BaseUrl = Schema.String.check(
  Schema.makeFilter(
    (url: string) => {
      if (!URL.canParse(url)) return false
      const { href, hostname, origin, protocol } = new URL(url)
      const local = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
      return href === `${origin}/` && (protocol === "https:" || (protocol === "http:" && local))
    },
    { expected: "an origin such as https://bridge.example.com (http only for this machine)" }
  )
)

const Secret = Schema.RedactedFromValue(Schema.String)

/** Who this Bridge is (spec 2.4). It never changes: an exact retry of the challenge repeats every field. */
export const Identity = Schema.Struct({
  project_id: Uuid,
  bridge_id: BridgeId,
  device_id: storedText(128),
  display_name: storedText(120)
})
export type Identity = typeof Identity.Type

/** `credential_hash` tells a repeated `enroll` with the same credential from one with another. */
const Enrollment = Schema.Struct({
  credential_hash: Schema.String,
  challenge_key: IdempotencyKey,
  proof_key: IdempotencyKey,
  /** This enrollment has produced a token. */
  done: Schema.Boolean
})
export type Enrollment = typeof Enrollment.Type

/** `lifetime_seconds`: from the answer that carried the token to its expiry, both by the service's clock. */
const Token = Schema.Struct({ access_token: Secret, lifetime_seconds: Schema.Number })

/**
 * The rotation journal. `prepared`: the Idempotency-Key of prepare is stored, so a retry gets the same successor.
 * `stored`: both tokens are stored, so confirm may be called (spec 4.4). `confirmed`: the successor is now `token`.
 */
const Rotation = Schema.Union([
  Schema.Struct({ state: Schema.Literal("prepared"), prepare_key: IdempotencyKey }),
  Schema.Struct({
    state: Schema.Literal("stored"),
    rotation_id: Uuid,
    successor_token: Secret,
    confirm_key: IdempotencyKey,
    abort_key: IdempotencyKey
  }),
  Schema.Struct({ state: Schema.Literal("confirmed"), rotation_id: Uuid })
])
export type Rotation = typeof Rotation.Type

export const State = Schema.Struct({
  version: Schema.Literal(1),
  base_url: BaseUrl,
  identity: Identity,
  enrollment: Schema.NullOr(Enrollment),
  token: Schema.NullOr(Token),
  rotation: Schema.NullOr(Rotation)
})
export type State = typeof State.Type

/** An access token for /mcp, until it has to be replaced: a copy that saves requests, and nothing depends on. */
export const Access = Schema.Struct({
  access_token: Secret,
  /** The key that it was issued for: it ends with it. */
  public_key_fingerprint: Fingerprint,
  /** Milliseconds since 1970, by this machine's clock; before `from` the clock was turned back. */
  from: Schema.Number,
  until: Schema.Number
})
export type Access = typeof Access.Type

/** A state with a token. */
export type Enrolled = State & { readonly token: typeof Token.Type }

/** Whole seconds from an answer to the expiry in it, at least one, both by the service's clock. */
export const lifetimeOf = ({ at, body }: { readonly at: Date; readonly body: { readonly expires_at: Date } }): number =>
  Math.max(1, Math.floor((body.expires_at.getTime() - at.getTime()) / 1000))
