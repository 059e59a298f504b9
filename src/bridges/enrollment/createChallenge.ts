/** The challenge (spec 4.1): who may have one is decided in the order of research 4.3, known secrets first. */
import { Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { nonceAgain } from "../identity/Derived.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { KeyRing } from "../../platform/crypto/Derivation.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import type { CreateChallenge } from "../../wire/bridges/EnrollmentApi.ts"
import { type EnrollmentRefusal, refuse } from "../../wire/bridges/EnrollmentErrors.ts"
import { requestHash } from "./Request.ts"
import * as Store from "./ChallengeStore.ts"

export type ChallengeRefusal = EnrollmentRefusal<
  | "bridge_enrollment_credential_invalid"
  | "bridge_enrollment_credential_revoked"
  | "bridge_enrollment_credential_used"
  | "bridge_enrollment_credential_expired"
  | "project_mismatch"
  | "bridge_revoked"
  | "bridge_not_pending"
  | "bridge_identity_conflict"
  | "invalid_request"
  | "idempotency_conflict"
  | "bridge_persistence_error"
>

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const { bridge } = yield* Settings
  const store = Store.make(sql)
  const nonces = KeyRing.make({
    purpose: "bridge/v1/challenge-nonce",
    current: bridge.enrollmentSecret,
    previous: Option.fromUndefinedOr(bridge.enrollmentSecretPrevious)
  })

  return Effect.fn("Enrollment.createChallenge")(function* (
    asked: CreateChallenge,
    key: string,
    credential: Redacted.Redacted<string>
  ) {
    if (!Tokens.isToken("sbe", Redacted.value(credential))) {
      return yield* refuse("bridge_enrollment_credential_invalid")
    }
    // A name is shown and logged: a token that somebody put there by mistake must not be kept.
    if ([asked.bridge_id, asked.device_id, asked.display_name].some((text) => Tokens.findToken(text) !== undefined)) {
      return yield* refuse("invalid_request")
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
      const stored = { hash: nonce_hash, key_id }
      const nonce = yield* nonceAgain(nonces, stored, "challenge", [challenge_id, derivation_salt, credential])
      return Option.some({ answer: challengeOf(earlier.value, nonce), replayed: true })
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

    return yield* untilSettled(attempt, explain)
  }, persistence)
})

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
