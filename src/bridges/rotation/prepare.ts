/**
 * Prepare (spec 4.3): mints a successor beside the active token.
 *
 * The successor is derived from the presented token, so an exact retry gets the same successor (spec 3.4).
 */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { changes } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { refuse } from "../../wire/bridges/RotationApi.ts"
import { Caller } from "../../wire/Headers.ts"
import { after, hasPassed, secondsUntil } from "../../wire/Instant.ts"
import { replayedToken, tokenRing } from "../identity/DerivedSecrets.ts"
import * as Store from "./PrepareStore.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"

/** A healthy Bridge rotates every few hours; each rotation leaves three rows for 30 days and two for 400. */
const mostRotations = 60
const limitedFor = Duration.hours(1)

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const { bridge, http } = yield* Settings
  const tokens = yield* TokenCheck
  const store = Store.make(yield* SqlClient.SqlClient)
  const preparing = yield* changes(store.prepare)
  const ring = tokenRing(bridge)

  return Effect.fnUntraced(
    function* (bearer: BearerToken, key: string) {
      const token_hash = yield* tokens.hashOf(bearer)
      const now = yield* clock.now
      const key_hash = sha256(key)
      const since = after(now, Duration.negate(limitedFor))
      const allowed = http.rateLimits ? { rotations: mostRotations, since } : undefined
      const answerOf = (rotation_id: string, successor_token: BearerToken, confirmation_expires_at: Date) => ({
        rotation_id,
        successor_token,
        token_type: "Bearer" as const,
        scope: "bridge:transport" as const,
        confirmation_expires_at
      })

      const prepare = preparing()
      /** Whether a rotation whose window has passed was found pending. */
      let replacing = false

      const attempt = Effect.gen(function* () {
        const rotation_id = yield* uuidAt(now)
        const successor_id = yield* uuidAt(now)
        const derivation_salt = yield* salt
        const derived = ring.current.derive("rotate", [successor_id, rotation_id, derivation_salt, bearer])
        const successor_token = Tokens.format("sbt", derived)
        const successor = {
          rotation_id,
          successor_id,
          successor_hash: Tokens.hash(successor_token),
          derivation_salt,
          key_id: ring.current.id,
          confirmation_expires_at: after(now, bridge.rotationTtl)
        }
        const trace = yield* traceAt(now)
        const request = { presented_hash: token_hash, prepare_key_hash: key_hash, successor, allowed, trace }
        const prepared = yield* replacing ? inTurn(store.replace(request)) : prepare(request)
        return Option.map(prepared, () => ({
          answer: answerOf(rotation_id, successor_token, successor.confirmation_expires_at),
          replayed: false
        }))
      })

      const replayOrRefuse = Effect.gen(function* () {
        const found = yield* tokens.requireKnown(yield* store.findPrepareState(token_hash, key_hash, allowed))
        yield* tokens.requireActive(found, now)
        if (found.key_rotation_id !== null) return Option.some(yield* replay(found))
        const { key_rotation_until } = found
        if (key_rotation_until !== null && !hasPassed(key_rotation_until, now))
          return yield* refuse("bridge_key_rotation_in_progress", secondsUntil(key_rotation_until, now))
        if (found.pending_until === null || hasPassed(found.pending_until, now)) {
          replacing = found.pending_until !== null
          if (found.limited_since === null) return Option.none()
          return yield* refuse("rate_limited", secondsUntil(after(found.limited_since, limitedFor), now))
        }
        const { address } = yield* Caller
        if (address !== found.pending_prepared_from) yield* tokens.reportPreparedElsewhere(found, now)
        return yield* refuse("bridge_rotation_in_progress", secondsUntil(found.pending_until, now))
      })

      /** A used Idempotency-Key is answered for its own rotation, even while another rotation is pending. */
      const replay = Effect.fnUntraced(function* (found: Store.PrepareState) {
        if (found.key_predecessor_id !== found.token_id) return yield* refuse("idempotency_conflict")
        if (found.key_state === "aborted") return yield* refuse("bridge_rotation_aborted")
        const until = found.key_confirmation_expires_at!
        if (found.key_state !== "pending" || hasPassed(until, now)) return yield* refuse("bridge_rotation_expired")
        const stored = { hash: found.key_token_hash!, key_id: found.key_key_id! }
        const fields = [found.key_successor_id!, found.key_rotation_id!, found.key_salt!, bearer]
        const successor = yield* replayedToken(ring, stored, "rotate", fields)
        return { answer: answerOf(found.key_rotation_id!, successor, until), replayed: true }
      })

      return yield* untilSettled(attempt, inTurn(replayOrRefuse))
    },
    sharedPersistence,
    spanned("Rotation.prepare")
  )
})
