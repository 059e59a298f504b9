/** The proof (spec 4.2), in the order of research 4.4: first authenticity, and only then the state of things. */
import { Effect, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { tokenAgain } from "../identity/Derived.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { KeyRing } from "../../platform/crypto/Derivation.ts"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../platform/crypto/Fingerprint.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import type { Prove } from "../../wire/bridges/EnrollmentApi.ts"
import { type EnrollmentRefusal, refuse } from "../../wire/bridges/EnrollmentErrors.ts"
import { requestHash } from "./Request.ts"
import * as Store from "./ProofStore.ts"

export type ProofRefusal = EnrollmentRefusal<
  | "enrollment_challenge_not_found"
  | "enrollment_challenge_mismatch"
  | "enrollment_key_mismatch"
  | "enrollment_proof_invalid"
  | "enrollment_challenge_consumed"
  | "enrollment_challenge_expired"
  | "bridge_revoked"
  | "bridge_not_pending"
  | "idempotency_conflict"
  | "bridge_persistence_error"
>

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const ed25519 = yield* Ed25519
  const audit = yield* Audit
  const { bridge } = yield* Settings
  const store = Store.make(sql)
  const tokens = KeyRing.make({
    purpose: "bridge/v1/access-token",
    current: bridge.tokenSecret,
    previous: Option.fromUndefinedOr(bridge.tokenSecretPrevious)
  })

  return Effect.fn("Enrollment.prove")(function* (asked: Prove, key: string) {
    const now = yield* clock.now
    const proof = {
      challenge_id: asked.challenge_id,
      key_hash: sha256(key),
      request_hash: requestHash([
        asked.project_id,
        asked.bridge_id,
        asked.challenge_id,
        asked.nonce_b64,
        asked.signature_b64,
        asked.public_key_b64
      ])
    }
    const tokenOf = (token: Redacted.Redacted<string>, expires_at: Date) => ({
      project_id: asked.project_id,
      bridge_id: asked.bridge_id,
      access_token: token,
      token_type: "Bearer" as const,
      scope: "bridge:transport" as const,
      expires_at
    })
    const fields = (token_id: string, identity_id: string, token_salt: Uint8Array) => [
      token_id,
      identity_id,
      token_salt,
      asked.signature_b64
    ]

    /** Passes only for who holds the key: from here on the caller may learn the challenge's state. */
    const authenticate = Effect.gen(function* () {
      const found = yield* store.findChallenge(asked.challenge_id, proof.key_hash)
      if (Option.isNone(found)) return yield* refuse("enrollment_challenge_not_found")
      const challenge = found.value
      if (
        challenge.project_id !== asked.project_id ||
        challenge.bridge_id !== asked.bridge_id ||
        !equal(sha256(asked.nonce_b64), challenge.nonce_hash)
      ) {
        return yield* refuse("enrollment_challenge_mismatch")
      }
      const failed = Effect.fnUntraced(function* (code: "enrollment_key_mismatch" | "enrollment_proof_invalid") {
        yield* audit.refused(now, {
          action: "bridge.proof",
          code,
          project_id: challenge.project_id,
          actor: `bridge:${challenge.bridge_id}`,
          subject: { bridge_id: challenge.bridge_id, challenge_id: challenge.challenge_id }
        })
        return yield* refuse(code)
      })
      if (fingerprint(asked.public_key_b64) !== challenge.public_key_fingerprint) {
        return yield* failed("enrollment_key_mismatch")
      }
      const signed = yield* ed25519.verify({
        publicKey: asked.public_key_b64,
        message: asked.nonce_b64,
        signature: asked.signature_b64
      })
      if (!signed) return yield* failed("enrollment_proof_invalid")
      return challenge
    })

    const attempt = Effect.gen(function* () {
      const challenge = yield* authenticate
      if (challenge.revoked) return yield* refuse("bridge_revoked")
      if (challenge.consumed_at !== null) return Option.some(yield* replay(challenge))
      if (challenge.credential_revoked || hasPassed(challenge.expires_at, now)) {
        return yield* refuse("enrollment_challenge_expired")
      }
      if (!challenge.enrollable) return yield* refuse("bridge_not_pending")
      if (challenge.key_used) return yield* refuse("idempotency_conflict")

      const token_id = yield* uuidAt(now)
      const derivation_salt = yield* salt
      const derived = tokens.current.derive("proof", fields(token_id, challenge.identity_id, derivation_salt))
      const access_token = Tokens.format("sbt", derived)
      const expires_at = after(now, bridge.tokenTtl)
      const token = {
        token_id,
        token_hash: Tokens.hash(access_token),
        derivation_salt,
        key_id: tokens.current.id,
        expires_at
      }
      const enrolled = yield* store
        .enroll(proof, token, now, yield* traceAt(now))
        // Two proofs with one key, for two challenges at once: the index lets one of them through.
        .pipe(Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeedNone))
      return Option.map(enrolled, () => ({ answer: tokenOf(access_token, expires_at), replayed: false }))
    })

    const replay = Effect.fnUntraced(function* (challenge: Store.ChallengeState) {
      const { consumed_at, proof_key_hash, proof_request_hash, token_expires_at, token_hash } = challenge
      if (!equal(proof_key_hash!, proof.key_hash)) return yield* refuse("enrollment_challenge_consumed")
      if (!equal(proof_request_hash!, proof.request_hash)) return yield* refuse("idempotency_conflict")
      if (
        challenge.token_state !== "active" ||
        hasPassed(token_expires_at!, now) ||
        hasPassed(after(consumed_at!, bridge.proofReplay), now)
      ) {
        return yield* refuse("enrollment_challenge_consumed")
      }
      const token = yield* tokenAgain(
        tokens,
        { hash: token_hash!, key_id: challenge.token_key_id! },
        "proof",
        fields(challenge.token_id!, challenge.identity_id, challenge.token_salt!)
      )
      return { answer: tokenOf(token, token_expires_at!), replayed: true }
    })

    return yield* untilSettled(attempt)
  }, persistence)
})
