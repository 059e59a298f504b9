/**
 * Proof of possession (RFC 9449; decisions.md, Proof of possession): with a DPoP proof by the enrolled key, a copy of a
 * Bridge's token is worthless without its key.
 *
 * It is checked before the state of the token: who cannot prove the key learns nothing about it.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../platform/crypto/Fingerprint.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, sharedPersistence } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { together } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import {
  type Claim,
  type Presented,
  readWith,
  requireSigned,
  Unproven,
  usedProof
} from "../../platform/proofs/DpopProof.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { refuse, type TokenRefusal } from "../../wire/bridges/RotationApi.ts"
import { Refusal } from "../../wire/Refusal.ts"
import * as Store from "./PossessionStore.ts"

/** The key that has proved itself. */
export interface Prover {
  readonly fingerprint: string
  readonly publicKey: Uint8Array
}

/** The key of a Bridge is an Ed25519 key (spec 2.3). */
export const accepted = { algorithms: ["EdDSA"], named: "EdDSA", keys: "Ed25519" } as const

/** The proof of the current request, read by the edge, which has limits for tokens with a proved key. */
export const CurrentClaim = Context.Reference<Claim | undefined>("service/bridges/CurrentClaim", {
  defaultValue: () => undefined
})

export class Possession extends Context.Service<
  Possession,
  {
    /** What the proof of a request with a Bridge token says; undefined if there is none about this request. */
    readonly claim: (bearer: Redacted.Redacted<string>, request: Presented) => Effect.Effect<Claim | undefined>
    /** Fails unless the request may use its token. An unknown token is left to the operation, which refuses it. */
    readonly require: (
      bearer: Redacted.Redacted<string>,
      request: Presented
    ) => Effect.Effect<void, TokenRefusal<"bridge_proof_of_possession_invalid" | "bridge_persistence_error">>
    /** The same for a request without a proof, whose token the operation has looked up itself. */
    readonly requireNone: (
      holder: Pick<Store.Holder, "bridge_id" | "project_id" | "dpop_required_since">,
      request: Presented,
      now: Date
    ) => Effect.Effect<void, TokenRefusal<"bridge_proof_of_possession_invalid">>
    /**
     * The key of the proof; fails without a valid one, whatever the mode. The key that the confirmed key rotation
     * `key_rotation_id` has replaced counts, too.
     */
    readonly prove: (
      bearer: Redacted.Redacted<string>,
      request: Presented,
      key_rotation_id?: string
    ) => Effect.Effect<
      Prover,
      TokenRefusal<"bridge_token_invalid" | "bridge_proof_of_possession_invalid" | "bridge_persistence_error">
    >
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
      const remember = yield* together(
        { one: ({ proof, token_hash }) => store.remember(token_hash, proof), each: store.rememberEach },
        { writes: true, repeatable: false }
      )
      const read = readWith(yield* Ed25519, accepted)

      const claim: Possession["Service"]["claim"] = Effect.fnUntraced(
        function* (bearer, request) {
          const { proof } = request
          if (bridge.dpop === "off" || proof === undefined || !Tokens.isToken("sbt", Redacted.value(bearer)))
            return undefined
          return yield* read(proof, { ...request, baseUrl, tokenHash: Tokens.hash(bearer), now: yield* clock.now })
        },
        Effect.catch(() => Effect.undefined)
      )

      /** The holder of the token and its key, if the proof is valid, by a key that counts, and was not used before. */
      const proved = Effect.fnUntraced(function* (
        tokenHash: Uint8Array,
        proof: string,
        request: Presented,
        now: Date,
        key_rotation_id?: string
      ) {
        const claim = (yield* CurrentClaim) ?? (yield* read(proof, { ...request, baseUrl, tokenHash, now }))
        yield* requireSigned(claim)
        const { jti, key } = claim
        const publicKey = key.bytes
        const by = fingerprint(publicKey)
        const used = { ...usedProof(by, jti, now), fingerprint: by }
        const holder = yield* key_rotation_id === undefined
          ? remember({ token_hash: tokenHash, proof: used })
          : inTurn(store.remember(tokenHash, used, key_rotation_id))
        if (Option.isSome(holder) && !holder.value.accepted)
          return yield* new Unproven({ why: "its key is not the key of this Bridge" })
        if (Option.isSome(holder) && !holder.value.first) return yield* new Unproven({ why: "it was used before" })
        return Option.map(holder, (holder) => ({ holder, prover: { fingerprint: by, publicKey } }))
      })

      const refused = Effect.fnUntraced(function* (
        { bridge_id, project_id }: Pick<Store.Holder, "bridge_id" | "project_id">,
        why: string,
        now: Date
      ) {
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

      const isBound = ({ dpop_required_since }: Pick<Store.Holder, "dpop_required_since">, { scheme }: Presented) =>
        scheme === "DPoP" || bridge.dpop === "required" || dpop_required_since !== null

      /** The holder and the key that it has proved; none if nobody has to. `always`: whatever the mode. */
      const checked = Effect.fnUntraced(function* (
        tokenHash: Uint8Array,
        request: Presented,
        now: Date,
        always = false,
        key_rotation_id?: string
      ) {
        const { proof } = request
        if (proof !== undefined) {
          return yield* Effect.catchTag(
            proved(tokenHash, proof, request, now, key_rotation_id),
            "Unproven",
            ({ why }) =>
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
        if (Option.isSome(holder) && (always || isBound(holder.value, request)))
          return yield* refused(holder.value, "The request has none", now)
        return Option.none<{ readonly holder: Store.Holder; readonly prover: Prover }>()
      }, sharedPersistence)

      /** Holds the Bridge to it from now on. A statement of its own: what is remembered above must not be repeated with it. */
      const hold = Effect.fnUntraced(function* (holder: Store.Holder, now: Date) {
        if (bridge.dpop !== "off" && holder.dpop_required_since === null)
          yield* persistence(store.hold(holder.identity_id, now, yield* traceAt(now)))
      })

      return {
        claim,
        require: Effect.fnUntraced(function* (bearer: Redacted.Redacted<string>, request: Presented) {
          if (bridge.dpop === "off" || !Tokens.isToken("sbt", Redacted.value(bearer))) return
          const now = yield* clock.now
          const found = yield* checked(Tokens.hash(bearer), request, now)
          if (Option.isSome(found)) yield* hold(found.value.holder, now)
        }, spanned("Possession.require")),
        requireNone: (holder, request, now) =>
          bridge.dpop !== "off" && isBound(holder, request)
            ? refused(holder, "The request has none", now)
            : Effect.void,
        prove: Effect.fnUntraced(function* (
          bearer: Redacted.Redacted<string>,
          request: Presented,
          key_rotation_id?: string
        ) {
          if (!Tokens.isToken("sbt", Redacted.value(bearer))) return yield* refuse("bridge_token_invalid")
          const now = yield* clock.now
          const found = yield* checked(Tokens.hash(bearer), request, now, true, key_rotation_id)
          if (Option.isNone(found)) return yield* refuse("bridge_token_invalid")
          yield* hold(found.value.holder, now)
          return found.value.prover
        }, spanned("Possession.prove"))
      }
    })
  )
}
