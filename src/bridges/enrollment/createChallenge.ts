/**
 * Creates a challenge (spec 4.1) and claims the bootstrap credential for the Bridge.
 *
 * Checks run in this order (decisions.md, When each code applies, and which wins): the credential is known and not revoked,
 * the request is an exact retry, the state of the credential, the state of the identity.
 */
import { secretIn } from "../../platform/secrets/Guard.ts"
import { Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { changes } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { type CreateChallenge, refuse } from "../../wire/bridges/EnrollmentApi.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import { nonceRing, replayedNonce } from "../identity/DerivedSecrets.ts"
import * as Store from "./ChallengeStore.ts"
import { requestHash } from "./RequestHash.ts"

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const audit = yield* Audit
  const { bridge } = yield* Settings
  const store = Store.make(yield* SqlClient.SqlClient)
  const opening = yield* changes(store.openChallenge)
  const ring = nonceRing(bridge)

  return Effect.fnUntraced(
    function* (request: CreateChallenge, key: string, credential: Redacted.Redacted<string>) {
      const now = yield* clock.now
      const { bridge_id, device_id, display_name } = request
      // Names are shown and logged.
      const secret = yield* secretIn({ bridge_id, device_id, display_name }, now)
      if (secret !== undefined) return yield* secret
      if (!Tokens.isToken("sbe", Redacted.value(credential))) {
        return yield* refuse("bridge_enrollment_credential_invalid")
      }
      const claim = {
        ...request,
        credential_hash: Tokens.hash(credential),
        idempotency_key_hash: sha256(key),
        request_hash: requestHash([
          request.project_id,
          request.bridge_id,
          request.device_id,
          request.display_name,
          request.public_key_fingerprint
        ])
      }
      const answerOf = (challenge: { challenge_id: string; expires_at: Date }, nonce_b64: Uint8Array) => ({
        challenge_id: challenge.challenge_id,
        project_id: request.project_id,
        bridge_id: request.bridge_id,
        public_key_fingerprint: request.public_key_fingerprint,
        nonce_b64,
        expires_at: challenge.expires_at
      })

      const open = opening()
      const attempt = Effect.gen(function* () {
        const challenge_id = yield* uuidAt(now)
        const derivation_salt = yield* salt
        const nonce = ring.current.derive("challenge", [challenge_id, derivation_salt, credential])
        const challenge = {
          challenge_id,
          identity_id: yield* uuidAt(now),
          nonce_hash: sha256(nonce),
          derivation_salt,
          key_id: ring.current.id,
          expires_at: after(now, bridge.challengeTtl)
        }
        const opened = yield* open({ claim, challenge, trace: yield* traceAt(now) })
        return Option.map(opened, () => ({ answer: answerOf(challenge, nonce), replayed: false }))
      })

      const replay = Effect.gen(function* () {
        const earlier = yield* store.findEarlierChallenge(claim)
        if (Option.isNone(earlier)) return Option.none()
        const { challenge_id, derivation_salt, key_id, nonce_hash, request_hash } = earlier.value
        if (!equal(request_hash, claim.request_hash)) return yield* refuse("idempotency_conflict")
        const stored = { hash: nonce_hash, key_id }
        const nonce = yield* replayedNonce(ring, stored, "challenge", [challenge_id, derivation_salt, credential])
        return Option.some({ answer: answerOf(earlier.value, nonce), replayed: true })
      })

      /** A credential comes back after its Bridge used it, or after it was revoked: somebody may have a copy. */
      const reportReturn = ({ claimed_bridge_id, credential_id, project_id }: Store.CredentialState, code: string) =>
        audit.rejected(now, {
          action: "bridge.credential_returned",
          code,
          project_id,
          actor: `bridge_credential:${credential_id}`,
          subject: { credential_id, ...(claimed_bridge_id !== null && { bridge_id: claimed_bridge_id }) }
        })

      const replayOrRefuse = Effect.gen(function* () {
        const found = yield* store.findCredential(claim)
        if (Option.isNone(found)) return yield* refuse("bridge_enrollment_credential_invalid")
        const replayed = found.value.revoked ? Option.none() : yield* replay
        if (Option.isSome(replayed)) return replayed
        const refusal = refusalFor(found.value, request, now)
        if (refusal === undefined) return Option.none()
        if (returned.has(refusal._tag)) yield* reportReturn(found.value, refusal._tag)
        return yield* refusal
      })

      return yield* untilSettled(attempt, inTurn(replayOrRefuse))
    },
    sharedPersistence,
    spanned("Enrollment.createChallenge")
  )
})

const returned: ReadonlySet<string> = new Set([
  "bridge_enrollment_credential_revoked",
  "bridge_enrollment_credential_used"
])

/** The refusal for a credential that cannot open a challenge; undefined if it can by now. */
const refusalFor = (credential: Store.CredentialState, request: CreateChallenge, now: Date) => {
  if (credential.revoked) return refuse("bridge_enrollment_credential_revoked")
  const expired = hasPassed(credential.expires_at, now)
  if (credential.claimed_bridge_id !== null) {
    const sameBridge =
      credential.claimed_bridge_id === request.bridge_id &&
      credential.claimed_device_id === request.device_id &&
      credential.claimed_fingerprint === request.public_key_fingerprint
    const free = sameBridge && !credential.consumed && hasPassed(credential.challenge_expires_at!, now)
    if (!free || expired) return refuse("bridge_enrollment_credential_used")
  }
  if (expired) return refuse("bridge_enrollment_credential_expired")
  if (credential.project_id !== request.project_id) return refuse("project_mismatch")
  if ((credential.reenroll_bridge_id ?? request.bridge_id) !== request.bridge_id)
    return refuse("bridge_identity_conflict")
  if (credential.identity_status === "revoked") return refuse("bridge_revoked")
  if (credential.reenroll_bridge_id !== null) return undefined
  const sameKey = credential.identity_fingerprint === request.public_key_fingerprint
  if (credential.identity_status === "active")
    return refuse(sameKey ? "bridge_not_pending" : "bridge_identity_conflict")
  const reserved = credential.identity_reserved_until !== null && !hasPassed(credential.identity_reserved_until, now)
  return credential.identity_status === "pending" && !sameKey && reserved
    ? refuse("bridge_identity_conflict")
    : undefined
}
