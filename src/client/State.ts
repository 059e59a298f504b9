/**
 * What a Bridge keeps, in one document that is replaced as a whole: no crash can leave half of a step.
 *
 * Nonces and signatures are not in it (spec 1.5): a repeated challenge returns the same nonce, and Ed25519 the same
 * signature for it. Nor is the bootstrap credential, which stays in the operator's file.
 */
import { Schema } from "effect"
import { BridgeId, IdempotencyKey, Uuid } from "../wire/Ids.ts"
import { text } from "../wire/Text.ts"

/** The origin of the service; https, because bearer tokens travel, unless it is this machine. */
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

/** Who this Bridge is (spec 2.4). Chosen once: an exact retry of the challenge repeats all of it. */
export const Identity = Schema.Struct({
  project_id: Uuid,
  bridge_id: BridgeId,
  device_id: text(128),
  display_name: text(120)
})
export type Identity = typeof Identity.Type

/** `credential_hash` tells whether the operator came with the same credential again or with another one. */
const Enrollment = Schema.Struct({
  credential_hash: Schema.String,
  challenge_key: IdempotencyKey,
  proof_key: IdempotencyKey,
  /** The token of this enrollment is, or was, in `token`. */
  done: Schema.Boolean
})
export type Enrollment = typeof Enrollment.Type

/** `lifetime_seconds`: from the answer that brought it to its expiry, both by the service's clock. */
const Token = Schema.Struct({ access_token: Secret, lifetime_seconds: Schema.Number })

/**
 * The rotation journal. `prepared`: the key of the prepare is kept, so whatever it makes can be asked for again.
 * `stored`: both tokens are kept, so confirm may be called (spec 4.4). `confirmed`: the successor has become `token`.
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

/** A state that holds a token. */
export type Holding = State & { readonly token: typeof Token.Type }

/** Whole seconds that an answer gives its token, at least one; by the service's clock alone. */
export const lifetimeOf = ({ at, body }: { readonly at: Date; readonly body: { readonly expires_at: Date } }): number =>
  Math.max(1, Math.floor((body.expires_at.getTime() - at.getTime()) / 1000))
