/**
 * Enrollment: a Bridge trades a one-time credential for its first token (spec 3.1, 3.4, 4.1, 4.2).
 *
 * 1. The operator issues a bootstrap credential for one project (Credentials.ts).
 * 2. The Bridge asks for a challenge and declares the fingerprint of its key. The first challenge claims the credential
 *    for this Bridge.
 * 3. It signs the nonce. One statement consumes the challenge, activates the identity and stores the token's hash.
 *
 * Nonce and token are derived from a server secret, a stored salt and what the Bridge sends again on a retry, so an
 * exact retry gets the same answer from any replica although nothing raw is stored. A refusal changes nothing.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../audit/Audit.ts"
import { Settings } from "../Config.ts"
import { KeyRing } from "../crypto/Derivation.ts"
import { Ed25519 } from "../crypto/Ed25519.ts"
import { fingerprint } from "../crypto/Fingerprint.ts"
import { salt, uuidAt } from "../crypto/Random.ts"
import { equal, sha256 } from "../crypto/Sha256.ts"
import * as Tokens from "../crypto/Tokens.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence, untilSettled } from "../database/Persistence.ts"
import type { Replayable } from "../wire/Headers.ts"
import { after, hasPassed } from "../wire/Instant.ts"
import type { Challenge, CreateChallenge, EnrolledToken, Prove } from "./Api.ts"
import { type EnrollmentRefusal, refuse } from "./Errors.ts"
import * as Store from "./Store.ts"

type ChallengeRefusal = EnrollmentRefusal<
  | "bridge_enrollment_credential_invalid"
  | "bridge_enrollment_credential_revoked"
  | "bridge_enrollment_credential_used"
  | "bridge_enrollment_credential_expired"
  | "project_mismatch"
  | "bridge_revoked"
  | "bridge_not_pending"
  | "bridge_identity_conflict"
  | "idempotency_conflict"
  | "bridge_persistence_error"
>

type ProofRefusal = EnrollmentRefusal<
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

export class Enrollment extends Context.Service<
  Enrollment,
  {
    readonly createChallenge: (
      asked: CreateChallenge,
      key: string,
      credential: Redacted.Redacted<string>
    ) => Effect.Effect<Replayable<Challenge>, ChallengeRefusal>
    readonly prove: (asked: Prove, key: string) => Effect.Effect<Replayable<EnrolledToken>, ProofRefusal>
  }
>()("service/enrollment/Enrollment") {
  static readonly layer = Layer.effect(
    Enrollment,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const ed25519 = yield* Ed25519
      const audit = yield* Audit
      const { bridge } = yield* Settings
      const store = Store.make(sql)
      const nonces = KeyRing.make({
        purpose: "bridge/v1/challenge-nonce",
        current: bridge.enrollmentSecret,
        previous: Option.fromUndefinedOr(bridge.enrollmentSecretPrevious)
      })
      const tokens = KeyRing.make({
        purpose: "bridge/v1/access-token",
        current: bridge.tokenSecret,
        previous: Option.fromUndefinedOr(bridge.tokenSecretPrevious)
      })

      const createChallenge = Effect.fn("Enrollment.createChallenge")(function* (
        asked: CreateChallenge,
        key: string,
        credential: Redacted.Redacted<string>
      ) {
        if (!Tokens.isToken("sbe", Redacted.value(credential))) {
          return yield* refuse("bridge_enrollment_credential_invalid")
        }
        const now = yield* clock.now
        const ask = {
          ...asked,
          credential_hash: Tokens.hash(credential),
          idempotency_key_hash: sha256(key),
          request_hash: requestHash([
            asked.project_id,
            asked.bridge_id,
            asked.device_id,
            asked.display_name,
            asked.public_key_fingerprint
          ])
        }
        const challengeOf = (challenge: { challenge_id: string; expires_at: Date }, nonce_b64: Uint8Array) => ({
          challenge_id: challenge.challenge_id,
          project_id: asked.project_id,
          bridge_id: asked.bridge_id,
          public_key_fingerprint: asked.public_key_fingerprint,
          nonce_b64,
          expires_at: challenge.expires_at
        })

        const attempt = Effect.gen(function* () {
          const challenge_id = yield* uuidAt(now)
          const derivation_salt = yield* salt
          const nonce = nonces.current.derive("challenge", [challenge_id, derivation_salt, credential])
          const challenge = {
            challenge_id,
            identity_id: yield* uuidAt(now),
            nonce_hash: sha256(nonce),
            derivation_salt,
            key_id: nonces.current.id,
            expires_at: after(now, bridge.challengeTtl)
          }
          const opened = yield* store.openChallenge(ask, challenge, now, yield* traceAt(now))
          return Option.map(opened, () => ({ answer: challengeOf(challenge, nonce), replayed: false }))
        })

        const replay = Effect.gen(function* () {
          const earlier = yield* store.findEarlierChallenge(ask)
          if (Option.isNone(earlier)) return Option.none()
          const { challenge_id, derivation_salt, key_id, nonce_hash, request_hash } = earlier.value
          if (!equal(request_hash, ask.request_hash)) return yield* refuse("idempotency_conflict")
          const nonce = nonces.derive(key_id, "challenge", [challenge_id, derivation_salt, credential])
          if (Option.isNone(nonce) || !equal(sha256(nonce.value), nonce_hash)) {
            return yield* irreproducible
          }
          return Option.some({ answer: challengeOf(earlier.value, nonce.value), replayed: true })
        })

        const explain = Effect.gen(function* () {
          const found = yield* store.findCredential(ask)
          if (Option.isNone(found)) return yield* refuse("bridge_enrollment_credential_invalid")
          if (found.value.revoked) return yield* refuse("bridge_enrollment_credential_revoked")
          const replayed = yield* replay
          if (Option.isSome(replayed)) return replayed
          const refusal = refusalOf(found.value, asked, now)
          return refusal === undefined ? Option.none() : yield* refusal
        })

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
      }, persistence)

      const prove = Effect.fn("Enrollment.prove")(function* (asked: Prove, key: string) {
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
          const derived = tokens.derive(
            challenge.token_key_id!,
            "proof",
            fields(challenge.token_id!, challenge.identity_id, challenge.token_salt!)
          )
          const token = Option.map(derived, (bytes) => Tokens.format("sbt", bytes))
          if (Option.isNone(token) || !equal(Tokens.hash(token.value), token_hash!)) {
            return yield* irreproducible
          }
          return { answer: tokenOf(token.value, token_expires_at!), replayed: true }
        })

        return yield* untilSettled(attempt)
      }, persistence)

      return { createChallenge, prove }
    })
  )
}

/** Why a credential opens no challenge; undefined when, by now, it would. */
const refusalOf = (credential: Store.CredentialState, asked: CreateChallenge, now: Date) => {
  const expired = hasPassed(credential.expires_at, now)
  if (credential.claimed_bridge_id !== null) {
    const sameBridge =
      credential.claimed_bridge_id === asked.bridge_id &&
      credential.claimed_device_id === asked.device_id &&
      credential.claimed_fingerprint === asked.public_key_fingerprint
    const free = sameBridge && !credential.consumed && hasPassed(credential.challenge_expires_at!, now)
    if (!free || expired) return refuse("bridge_enrollment_credential_used")
  }
  if (expired) return refuse("bridge_enrollment_credential_expired")
  if (credential.project_id !== asked.project_id) return refuse("project_mismatch")
  if ((credential.reenroll_bridge_id ?? asked.bridge_id) !== asked.bridge_id) return refuse("bridge_identity_conflict")
  if (credential.identity_status === "revoked") return refuse("bridge_revoked")
  if (credential.reenroll_bridge_id !== null) return undefined
  const sameKey = credential.identity_fingerprint === asked.public_key_fingerprint
  if (credential.identity_status === "active")
    return refuse(sameKey ? "bridge_not_pending" : "bridge_identity_conflict")
  const reserved = credential.identity_reserved_until !== null && !hasPassed(credential.identity_reserved_until, now)
  return credential.identity_status === "pending" && !sameKey && reserved
    ? refuse("bridge_identity_conflict")
    : undefined
}

/** The secret that derived it is no longer configured. Minting anew would give one request two answers. */
const irreproducible = Effect.andThen(
  Effect.logWarning("An original answer cannot be derived again: the secret of that time is not configured"),
  refuse("bridge_persistence_error")
)

const requestHash = (fields: ReadonlyArray<string | Uint8Array>) =>
  sha256(
    JSON.stringify(
      fields.map((field) => (typeof field === "string" ? field : Buffer.from(field).toString("base64url")))
    )
  )
