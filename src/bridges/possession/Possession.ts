/**
 * Proof of possession (RFC 9449; decisions.md, Proof of possession): with a DPoP proof by the enrolled key, a copy of a
 * Bridge's token is worthless without its key.
 *
 * It is checked before the state of the token: who cannot prove the key learns nothing about it.
 */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../platform/crypto/Fingerprint.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, sharedPersistence } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { together } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { refuse, type TokenRefusal } from "../../wire/bridges/RotationApi.ts"
import { after } from "../../wire/Instant.ts"
import { Refusal } from "../../wire/Refusal.ts"
import { Unproven, verifyWith } from "./DpopProof.ts"
import * as Store from "./PossessionStore.ts"

/** What a request presents besides its token. */
export interface Presented {
  readonly method: string
  /** Without query. */
  readonly path: string
  readonly scheme: "Bearer" | "DPoP"
  /** The DPoP header. */
  readonly proof: string | undefined
}

/** Longer than any proof is accepted: one that is two minutes early is accepted for four. */
const remembered = Duration.minutes(5)

export class Possession extends Context.Service<
  Possession,
  {
    /** Fails unless the request may use its token. An unknown token is left to the operation, which refuses it. */
    readonly require: (
      bearer: Redacted.Redacted<string>,
      request: Presented
    ) => Effect.Effect<void, TokenRefusal<"bridge_proof_of_possession_invalid" | "bridge_persistence_error">>
  }
>()("service/bridges/Possession") {
  static readonly layer = Layer.effect(
    Possession,
    Effect.gen(function* () {
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const { baseUrl, bridge } = yield* Settings
      const store = Store.make(yield* SqlClient.SqlClient)
      const findHolder = yield* together(store.tokenHolder)
      const verify = verifyWith(yield* Ed25519)

      /** The holder of the token, if the proof is valid, by the holder's key, and was not used before. */
      const proved = Effect.fnUntraced(function* (tokenHash: Uint8Array, proof: string, request: Presented, now: Date) {
        const { jti, publicKey } = yield* verify(proof, { ...request, baseUrl, tokenHash, now })
        const by = fingerprint(publicKey)
        const used = { fingerprint: by, proof_hash: sha256(`${by} ${jti}`), forget_at: after(now, remembered) }
        const holder = yield* inTurn(store.remember(tokenHash, used))
        if (Option.isSome(holder) && holder.value.public_key_fingerprint !== by)
          return yield* new Unproven({ why: "its key is not the key of this Bridge" })
        if (Option.isSome(holder) && !holder.value.first) return yield* new Unproven({ why: "it was used before" })
        return holder
      })

      const refused = Effect.fnUntraced(function* ({ bridge_id, project_id }: Store.Holder, why: string, now: Date) {
        const { _tag, message, status } = refuse("bridge_proof_of_possession_invalid")
        yield* audit.rejected(now, {
          action: "bridge.possession",
          code: _tag,
          project_id,
          actor: `bridge:${bridge_id}`,
          subject: { bridge_id }
        })
        return yield* new Refusal({ _tag, status, message: `${message} ${why}.`, challenge: "DPoP" })
      })

      /** The holder that has proved its key; none if nobody has to. */
      const checked = Effect.fnUntraced(function* (tokenHash: Uint8Array, request: Presented, now: Date) {
        const { proof, scheme } = request
        if (proof !== undefined) {
          return yield* Effect.catchTag(proved(tokenHash, proof, request, now), "Unproven", ({ why }) =>
            Effect.flatMap(
              findHolder({ token_hash: tokenHash, now }),
              Option.match({
                onNone: () => Effect.succeedNone,
                onSome: (holder) => refused(holder, `The proof is refused: ${why}`, now)
              })
            )
          )
        }
        const holder = yield* findHolder({ token_hash: tokenHash, now })
        const isBound = scheme === "DPoP" || bridge.dpop === "required"
        if (Option.isSome(holder) && (isBound || holder.value.dpop_required_since !== null))
          return yield* refused(holder.value, "The request has none", now)
        return Option.none<Store.Holder>()
      }, sharedPersistence)

      return {
        require: Effect.fnUntraced(function* (bearer: Redacted.Redacted<string>, request: Presented) {
          if (bridge.dpop === "off" || !Tokens.isToken("sbt", Redacted.value(bearer))) return
          const now = yield* clock.now
          const holder = yield* checked(Tokens.hash(bearer), request, now)
          // A statement of its own: what is remembered above must not be repeated with it.
          if (Option.isSome(holder) && holder.value.dpop_required_since === null)
            yield* persistence(store.hold(holder.value.identity_id, now, yield* traceAt(now)))
        }, spanned("Possession.require"))
      }
    })
  )
}
