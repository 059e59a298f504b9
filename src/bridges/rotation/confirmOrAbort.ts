/**
 * Confirm and abort (spec 4.4, 4.5): the holder of a pending successor ends its rotation one way or the other.
 *
 * Confirm and abort share one flow and differ in the statement. The statement acts only if all its conditions hold; if
 * it does not act, a read finds the reason, or finds that the same request was answered before.
 */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { changes } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { refuse } from "../../wire/bridges/RotationApi.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import { refusalIfEnded } from "../identity/TokenState.ts"
import * as Store from "./ConfirmOrAbortStore.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const { bridge } = yield* Settings
  const tokens = yield* TokenCheck
  const store = Store.make(yield* SqlClient.SqlClient)
  const confirming = yield* changes(store.confirm)
  const aborting = () => (request: Store.Ending) => inTurn(store.abort(request))

  const end = Effect.fnUntraced(function* <Outcome extends Store.Outcome>(
    outcome: Outcome,
    bearer: BearerToken,
    rotation_id: string,
    key: string
  ) {
    const request = { token_hash: yield* tokens.hashOf(bearer), rotation_id, key_hash: sha256(key) }
    const now = yield* clock.now
    const expires_at = after(now, bridge.tokenTtl)

    const statement = outcome === "confirmed" ? confirming() : aborting()
    const attempt = Effect.gen(function* () {
      const ended = yield* statement({ ...request, expires_at, trace: yield* traceAt(now) })
      return Option.map(ended, (identity) => ({ ...identity, expires_at, replayed: false }))
    })

    const replayOrRefuse = Effect.gen(function* () {
      const found = yield* tokens.requireKnown(yield* store.findNamedRotation(request, outcome))
      const refusal = refusalFor(found, outcome, now)
      if (refusal !== undefined) {
        yield* tokens.reportReuse(found, refusal._tag, now)
        return yield* refusal
      }
      if (found.rotation_state === outcome) {
        if (!equal(found.end_key_hash!, request.key_hash)) return yield* refuse(`bridge_rotation_${outcome}`)
        const { bridge_id, project_id } = found
        return Option.some({ bridge_id, project_id, expires_at: found.expires_at ?? expires_at, replayed: true })
      }
      return found.key_used ? yield* refuse("idempotency_conflict") : Option.none()
    })

    return yield* untilSettled(attempt, inTurn(replayOrRefuse))
  })

  const confirm = Effect.fnUntraced(
    function* (bearer: BearerToken, rotation_id: string, key: string) {
      const { bridge_id, expires_at, project_id, replayed } = yield* end("confirmed", bearer, rotation_id, key)
      const answer = {
        rotation_id,
        status: "confirmed" as const,
        project_id,
        bridge_id,
        token_type: "Bearer" as const,
        scope: "bridge:transport" as const,
        expires_at
      }
      return { answer, replayed }
    },
    sharedPersistence,
    spanned("Rotation.confirm")
  )

  const abort = Effect.fn("Rotation.abort")(
    function* (bearer: BearerToken, rotation_id: string, key: string) {
      const { bridge_id, project_id, replayed } = yield* end("aborted", bearer, rotation_id, key)
      return { answer: { rotation_id, status: "aborted" as const, project_id, bridge_id }, replayed }
    },
    // `refusalFor` returns this code for confirm only.
    Effect.catchTag("bridge_rotation_predecessor_expired", Effect.die),
    sharedPersistence
  )

  return { confirm, abort }
})

/** The refusal if the token cannot end the rotation with this outcome; undefined if it can, or already did. */
const refusalFor = (found: Store.NamedRotation, outcome: Store.Outcome, now: Date) => {
  if (found.revoked) return refuse("bridge_revoked")
  if (found.rotation_id === null || found.successor_id !== found.token_id) {
    const ended = refusalIfEnded(found, now)
    if (ended !== undefined) return ended
    return refuse(found.rotation_id === null ? "bridge_rotation_not_found" : "bridge_rotation_invalid_state")
  }
  return refusalForSuccessor(found, outcome, now)
}

/** The same for the rotation's own successor: the code names what ended the rotation first. */
const refusalForSuccessor = (found: Store.NamedRotation, outcome: Store.Outcome, now: Date) => {
  switch (found.rotation_state!) {
    case "confirmed": {
      const ended = refusalIfEnded(found, now)
      return ended ?? (outcome === "confirmed" ? undefined : refuse("bridge_rotation_confirmed"))
    }
    case "aborted":
      return outcome === "aborted" ? undefined : refuse("bridge_rotation_aborted")
    case "cancelled":
      return outcome === "confirmed" && predecessorExpiredFirst(found, now)
        ? refuse("bridge_rotation_predecessor_expired")
        : refuse("bridge_rotation_predecessor_revoked")
    case "pending":
    case "expired":
      if (outcome === "confirmed" && predecessorExpiredFirst(found, now)) {
        return refuse("bridge_rotation_predecessor_expired")
      }
      // The state counts as well as the time: a replica with a faster clock may have marked the rotation expired.
      return found.rotation_state === "expired" || hasPassed(found.rotation_expires_at!, now)
        ? refuse("bridge_rotation_expired")
        : undefined
  }
}

/** The predecessor has expired, and did so before the confirmation window closed. */
const predecessorExpiredFirst = (found: Store.NamedRotation, now: Date) => {
  const expiry = found.predecessor_expires_at!
  const expired =
    found.predecessor_state === "expired" || (found.predecessor_state === "active" && hasPassed(expiry, now))
  return expired && hasPassed(expiry, found.rotation_expires_at!)
}
