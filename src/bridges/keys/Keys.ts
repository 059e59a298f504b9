/**
 * Key rotation (decisions.md, Key rotation): a Bridge replaces its enrolled key by itself, in two phases as its token.
 *
 * 1. Prepare announces the fingerprint of the new key and returns a nonce. The old key still counts.
 * 2. Confirm proves that the new key signed the nonce, and that the old key signed nonce and new key. One statement puts
 *    the new key in the place of the old one. The token stays.
 * 3. If the Bridge aborts instead, or the window passes, the old key stays.
 *
 * Every request comes with a DPoP proof by the old key, so a thief with only the token cannot keep a Bridge busy. The nonce
 * is derived, so that an exact retry of prepare returns it; an exact retry of confirm may still be proved by the old key.
 */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../platform/crypto/Fingerprint.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import {
  type AbortedKey,
  type ConfirmKey,
  type KeyRefusal,
  type PreparedKey,
  refuse,
  type RotatedKey
} from "../../wire/bridges/KeysApi.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { after, hasPassed, secondsUntil } from "../../wire/Instant.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { requestHash } from "../enrollment/RequestHash.ts"
import { nonceRing, replayedNonce } from "../identity/DerivedSecrets.ts"
import { type BearerToken, TokenCheck } from "../rotation/TokenCheck.ts"
import type { Prover } from "../possession/Possession.ts"
import * as Store from "./KeyStore.ts"

/** A key is replaced now and then; each key rotation leaves a row for 30 days. */
const mostRotations = 20
const limitedFor = Duration.hours(1)

export class Keys extends Context.Service<
  Keys,
  {
    readonly prepare: (
      bearer: BearerToken,
      prover: Prover,
      fingerprint: string,
      key: string
    ) => Effect.Effect<Replayable<PreparedKey>, KeyRefusal<"prepareKey">>
    readonly confirm: (
      bearer: BearerToken,
      prover: Prover,
      request: ConfirmKey,
      key: string
    ) => Effect.Effect<Replayable<RotatedKey>, KeyRefusal<"confirmKey">>
    readonly abort: (
      bearer: BearerToken,
      prover: Prover,
      key_rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<AbortedKey>, KeyRefusal<"abortKey">>
  }
>()("service/bridges/Keys") {
  static readonly layer = Layer.effect(
    Keys,
    Effect.gen(function* () {
      const audit = yield* Audit
      const clock = yield* DatabaseClock
      const ed25519 = yield* Ed25519
      const { bridge, http } = yield* Settings
      const tokens = yield* TokenCheck
      const store = Store.make(yield* SqlClient.SqlClient)
      const ring = nonceRing(bridge)

      /** The key that proved itself a moment ago was replaced in between. */
      const requireCurrent = (current: string, prover: Prover) =>
        current === prover.fingerprint ? Effect.void : Effect.fail(refuse("bridge_proof_of_possession_invalid"))

      const prepare = Effect.fn("Keys.prepare")(function* (
        bearer: BearerToken,
        prover: Prover,
        newFingerprint: string,
        key: string
      ) {
        const now = yield* clock.now
        const request = {
          token_hash: yield* tokens.hashOf(bearer),
          key_hash: sha256(key),
          fingerprint: newFingerprint,
          by: prover.fingerprint
        }
        const since = after(now, Duration.negate(limitedFor))
        const allowed = http.rateLimits ? { rotations: mostRotations, since } : undefined

        const attempt = Effect.gen(function* () {
          const key_rotation_id = yield* uuidAt(now)
          const derivation_salt = yield* salt
          const nonce_b64 = ring.current.derive("key-rotation", [key_rotation_id, derivation_salt, bearer])
          const confirmation_expires_at = after(now, bridge.rotationTtl)
          const created = {
            key_rotation_id,
            nonce_hash: sha256(nonce_b64),
            derivation_salt,
            key_id: ring.current.id,
            confirmation_expires_at
          }
          const prepared = yield* store.prepare(request, created, allowed, now, yield* traceAt(now))
          return Option.map(prepared, () => ({
            answer: { key_rotation_id, nonce_b64, confirmation_expires_at },
            replayed: false
          }))
        })

        const replayOrRefuse = Effect.gen(function* () {
          const found = yield* tokens.requireKnown(yield* store.findPrepareState(request, allowed))
          yield* tokens.requireActive(found, now)
          yield* requireCurrent(found.public_key_fingerprint, prover)
          if (found.key_rotation_id !== null) return Option.some(yield* replay(found, found.key_rotation_id))
          if (found.public_key_fingerprint === newFingerprint) {
            const sentence = "public_key_fingerprint is that of the key that the Bridge has; make a new one."
            return yield* withDetails(refuse("invalid_request"), {}, sentence)
          }
          if (isOpen(found.key_rotation_until, now))
            return yield* refuse("bridge_key_rotation_in_progress", secondsUntil(found.key_rotation_until, now))
          if (isOpen(found.pending_until, now))
            return yield* refuse("bridge_rotation_in_progress", secondsUntil(found.pending_until, now))
          if (found.limited_since === null) return Option.none()
          return yield* refuse("rate_limited", secondsUntil(after(found.limited_since, limitedFor), now))
        })

        const replay = Effect.fnUntraced(function* (found: Store.PrepareState, key_rotation_id: string) {
          if (found.new_fingerprint !== newFingerprint) return yield* refuse("idempotency_conflict")
          yield* refuseEnded(found, now)
          const stored = { hash: found.nonce_hash!, key_id: found.key_id! }
          const fields = [key_rotation_id, found.derivation_salt!, bearer]
          const nonce_b64 = yield* replayedNonce(ring, stored, "key-rotation", fields)
          const answer = { key_rotation_id, nonce_b64, confirmation_expires_at: found.confirmation_ends! }
          return { answer, replayed: true }
        })

        return yield* untilSettled(attempt, replayOrRefuse)
      }, persistence)

      /** Ends a key rotation one way or the other. `verify` refuses a confirm that does not prove both keys. */
      const end = Effect.fnUntraced(function* <E>(
        outcome: Store.Outcome,
        bearer: BearerToken,
        prover: Prover,
        ended: Pick<Store.EndRequest, "key_hash" | "key_rotation_id" | "request_hash">,
        verify: (found: Store.EndState, now: Date) => Effect.Effect<void, E>
      ) {
        const request = { ...ended, token_hash: yield* tokens.hashOf(bearer), by: prover.fingerprint }
        const now = yield* clock.now
        /** The outcome of an earlier, equal request; nothing if this one may end the key rotation. */
        const earlier = Effect.gen(function* () {
          const found = yield* tokens.requireKnown(yield* store.findEndState(request, outcome))
          yield* tokens.requireActive(found, now)
          if (found.outcome === null) yield* requireCurrent(found.public_key_fingerprint, prover)
          if (found.key_rotation_id === null) return yield* refuse("bridge_key_rotation_not_found")
          if (found.outcome === outcome && equal(found.end_key_hash!, request.key_hash)) {
            if (!equal(found.end_request_hash!, request.request_hash)) return yield* refuse("idempotency_conflict")
            return Option.some({ found, at: found.rotation_ended_at!, replayed: true })
          }
          yield* refuseEnded(found, now)
          if (found.key_used) return yield* refuse("idempotency_conflict")
          yield* verify(found, now)
          return Option.none()
        })
        const attempt = Effect.gen(function* () {
          const replay = yield* earlier
          if (Option.isSome(replay)) return replay
          const trace = yield* traceAt(now)
          const done = yield* outcome === "confirmed"
            ? store.confirm(request, now, trace)
            : store.abort(request, now, trace)
          return Option.map(done, (found) => ({ found, at: now, replayed: false }))
        })
        return yield* untilSettled(attempt)
      })

      const confirm = Effect.fn("Keys.confirm")(function* (
        bearer: BearerToken,
        prover: Prover,
        request: ConfirmKey,
        key: string
      ) {
        const { key_rotation_id, nonce_b64, predecessor_signature_b64, public_key_b64, signature_b64 } = request
        const request_hash = requestHash([
          key_rotation_id,
          nonce_b64,
          public_key_b64,
          signature_b64,
          predecessor_signature_b64
        ])
        const verify = Effect.fnUntraced(function* (found: Store.EndState, now: Date) {
          const fail = Effect.fnUntraced(function* (code: "enrollment_key_mismatch" | "enrollment_proof_invalid") {
            yield* audit.rejected(now, {
              action: "bridge.key_rotation",
              code,
              project_id: found.project_id,
              actor: `bridge:${found.bridge_id}`,
              subject: { bridge_id: found.bridge_id, key_rotation_id }
            })
            return yield* refuse(code)
          })
          if (fingerprint(public_key_b64) !== found.new_fingerprint) return yield* fail("enrollment_key_mismatch")
          if (!equal(sha256(nonce_b64), found.nonce_hash!)) return yield* fail("enrollment_proof_invalid")
          const [byNew, byOld] = yield* Effect.all([
            ed25519.verify({ publicKey: public_key_b64, message: nonce_b64, signature: signature_b64 }),
            ed25519.verify({
              publicKey: prover.publicKey,
              message: Buffer.concat([nonce_b64, public_key_b64]),
              signature: predecessor_signature_b64
            })
          ])
          if (!byNew || !byOld) return yield* fail("enrollment_proof_invalid")
        })
        const { at, found, replayed } = yield* end(
          "confirmed",
          bearer,
          prover,
          { key_rotation_id, key_hash: sha256(key), request_hash },
          verify
        )
        const { bridge_id, project_id } = found
        const public_key_fingerprint = fingerprint(public_key_b64)
        return { answer: { project_id, bridge_id, public_key_fingerprint, rotated_at: at }, replayed }
      }, persistence)

      const abort = Effect.fn("Keys.abort")(function* (
        bearer: BearerToken,
        prover: Prover,
        key_rotation_id: string,
        key: string
      ) {
        const request = { key_rotation_id, key_hash: sha256(key), request_hash: requestHash([key_rotation_id]) }
        const { replayed } = yield* end("aborted", bearer, prover, request, () => Effect.void)
        return { answer: { key_rotation_id, status: "aborted" as const }, replayed }
      }, persistence)

      return { prepare, confirm, abort }
    })
  ).pipe(Layer.provide(TokenCheck.layer))
}

const isOpen = (until: Date | null, now: Date): until is Date => until !== null && !hasPassed(until, now)

/** Refuses unless the key rotation is still pending. */
const refuseEnded = Effect.fnUntraced(function* (
  { confirmation_ends, named, outcome }: Store.EndState | Store.PrepareState,
  now: Date
) {
  if (outcome !== null) return yield* refuse(`bridge_key_rotation_${outcome}`)
  if (!named || hasPassed(confirmation_ends!, now)) return yield* refuse("bridge_key_rotation_expired")
})
