/**
 * Proves possession of the key (spec 4.2), activates the identity and mints the first token.
 *
 * The proof is authenticated first, so that only the holder of the key learns the state of the challenge and identity.
 */
import { Effect, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../platform/crypto/Fingerprint.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { changes } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { type Prove, refuse } from "../../wire/bridges/EnrollmentApi.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import { replayedToken, tokenRing } from "../identity/DerivedSecrets.ts"
import * as Store from "./ProofStore.ts"
import { requestHash } from "./RequestHash.ts"

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const ed25519 = yield* Ed25519
  const audit = yield* Audit
  const { bridge } = yield* Settings
  const store = Store.make(yield* SqlClient.SqlClient)
  const enrolling = yield* changes(store.enroll)
  const ring = tokenRing(bridge)

  return Effect.fnUntraced(
    function* (request: Prove, key: string) {
      const now = yield* clock.now
      const proof = {
        challenge_id: request.challenge_id,
        key_hash: sha256(key),
        request_hash: requestHash([
          request.project_id,
          request.bridge_id,
          request.challenge_id,
          request.nonce_b64,
          request.signature_b64,
          request.public_key_b64
        ])
      }
      const answerOf = (token: Redacted.Redacted<string>, expires_at: Date) => ({
        project_id: request.project_id,
        bridge_id: request.bridge_id,
        access_token: token,
        token_type: "Bearer" as const,
        scope: "bridge:transport" as const,
        expires_at
      })
      const derivedFrom = (token_id: string, identity_id: string, token_salt: Uint8Array) => [
        token_id,
        identity_id,
        token_salt,
        request.signature_b64
      ]

      /** Succeeds only for the holder of the key, who may then learn the challenge's state. */
      const authenticate = Effect.gen(function* () {
        const found = yield* store.findChallenge(request.challenge_id, proof.key_hash)
        if (Option.isNone(found)) return yield* refuse("enrollment_challenge_not_found")
        const challenge = found.value
        if (
          challenge.project_id !== request.project_id ||
          challenge.bridge_id !== request.bridge_id ||
          !equal(sha256(request.nonce_b64), challenge.nonce_hash)
        ) {
          return yield* refuse("enrollment_challenge_mismatch")
        }
        const fail = Effect.fnUntraced(function* (code: "enrollment_key_mismatch" | "enrollment_proof_invalid") {
          yield* audit.rejected(now, {
            action: "bridge.proof",
            code,
            project_id: challenge.project_id,
            actor: `bridge:${challenge.bridge_id}`,
            subject: { bridge_id: challenge.bridge_id, challenge_id: challenge.challenge_id }
          })
          return yield* refuse(code)
        })
        if (fingerprint(request.public_key_b64) !== challenge.public_key_fingerprint) {
          return yield* fail("enrollment_key_mismatch")
        }
        const verified = yield* ed25519.verify({
          publicKey: request.public_key_b64,
          message: request.nonce_b64,
          signature: request.signature_b64
        })
        if (!verified) return yield* fail("enrollment_proof_invalid")
        return challenge
      })

      const enroll = enrolling()
      const attempt = Effect.gen(function* () {
        const challenge = yield* inTurn(authenticate)
        if (challenge.revoked) return yield* refuse("bridge_revoked")
        if (challenge.consumed_at !== null) return Option.some(yield* inTurn(replay(challenge)))
        if (challenge.credential_revoked || hasPassed(challenge.expires_at, now)) {
          return yield* refuse("enrollment_challenge_expired")
        }
        if (!challenge.enrollable) return yield* refuse("bridge_not_pending")
        if (challenge.key_used) return yield* refuse("idempotency_conflict")

        const token_id = yield* uuidAt(now)
        const derivation_salt = yield* salt
        const derived = ring.current.derive("proof", derivedFrom(token_id, challenge.identity_id, derivation_salt))
        const access_token = Tokens.format("sbt", derived)
        const expires_at = after(now, bridge.tokenTtl)
        const token = {
          token_id,
          token_hash: Tokens.hash(access_token),
          derivation_salt,
          key_id: ring.current.id,
          expires_at
        }
        const enrolled = yield* enroll({ identity_id: challenge.identity_id, proof, token, trace: yield* traceAt(now) })
          // Two concurrent proofs use one Idempotency-Key for different challenges: the unique index admits one of them.
          .pipe(Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeedNone))
        return Option.map(enrolled, () => ({ answer: answerOf(access_token, expires_at), replayed: false }))
      })

      /** The proof comes again: a lost answer, or a copy of the request (decisions.md, Signs of theft). */
      const replay = Effect.fnUntraced(function* (challenge: Store.ChallengeState) {
        const { consumed_at, proof_key_hash, proof_request_hash, token_expires_at, token_hash } = challenge
        const event = {
          action: "bridge.proof_replayed",
          project_id: challenge.project_id,
          actor: `bridge:${challenge.bridge_id}`,
          subject: {
            bridge_id: challenge.bridge_id,
            challenge_id: challenge.challenge_id,
            ...(challenge.token_id !== null && { token_id: challenge.token_id })
          }
        }
        const fail = Effect.fnUntraced(function* (code: "enrollment_challenge_consumed" | "idempotency_conflict") {
          yield* audit.refused(now, { ...event, code })
          return yield* refuse(code)
        })
        if (!equal(proof_key_hash!, proof.key_hash)) return yield* fail("enrollment_challenge_consumed")
        if (!equal(proof_request_hash!, proof.request_hash)) return yield* fail("idempotency_conflict")
        if (
          challenge.token_state !== "active" ||
          challenge.token_salt === null ||
          hasPassed(token_expires_at!, now) ||
          hasPassed(after(consumed_at!, bridge.proofReplay), now)
        ) {
          return yield* fail("enrollment_challenge_consumed")
        }
        const token = yield* replayedToken(
          ring,
          { hash: token_hash!, key_id: challenge.token_key_id! },
          "proof",
          derivedFrom(challenge.token_id!, challenge.identity_id, challenge.token_salt)
        )
        yield* audit.repeated(now, event)
        return { answer: answerOf(token, token_expires_at!), replayed: true }
      })

      return yield* untilSettled(attempt)
    },
    sharedPersistence,
    spanned("Enrollment.prove")
  )
})
