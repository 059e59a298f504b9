/** Confirm and abort (spec 4.4, 4.5): the two ends that the holder of a pending successor can give its rotation. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { endedRefusal, isReuse } from "../identity/Guard.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import * as Bearers from "./Bearer.ts"
import { refuse, type RotationRefusal } from "../../wire/bridges/RotationErrors.ts"
import * as Store from "./EndStore.ts"

export type EndRefusal =
  | Exclude<Bearers.Guarded, RotationRefusal<"bridge_token_pending">>
  | RotationRefusal<
      | "bridge_rotation_not_found"
      | "bridge_rotation_expired"
      | "bridge_rotation_aborted"
      | "bridge_rotation_confirmed"
      | "bridge_rotation_invalid_state"
      | "bridge_rotation_predecessor_revoked"
      | "idempotency_conflict"
    >

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const { bridge } = yield* Settings
  const { hashOf, known, suspect } = yield* Bearers.make
  const store = Store.make(sql)

  const end = Effect.fnUntraced(function* <State extends "confirmed" | "aborted">(
    state: State,
    bearer: Bearers.Bearer,
    rotation_id: string,
    key: string
  ) {
    const ending = { token_hash: yield* hashOf(bearer), rotation_id, key_hash: sha256(key) }
    const now = yield* clock.now
    const expires_at = after(now, bridge.tokenTtl)

    const attempt = Effect.gen(function* () {
      const trace = yield* traceAt(now)
      const ended = yield* state === "confirmed"
        ? store.confirm(ending, expires_at, now, trace)
        : store.abort(ending, now, trace)
      return Option.map(ended, (identity) => ({ ...identity, expires_at, replayed: false }))
    })

    const explain = Effect.gen(function* () {
      const found = yield* known(yield* store.findEnd(ending, state))
      const refusal = endRefusal(found, state, now)
      if (refusal !== undefined) {
        if (isReuse(found, now)) yield* suspect("bridge.token_reused_after_rotation", refusal._tag, found, now)
        return yield* refusal
      }
      if (found.rotation_state === state) {
        if (!equal(found.end_key_hash!, ending.key_hash)) return yield* refuse(`bridge_rotation_${state}`)
        const { bridge_id, project_id } = found
        return Option.some({ bridge_id, project_id, expires_at: found.expires_at ?? expires_at, replayed: true })
      }
      return found.key_used ? yield* refuse("idempotency_conflict") : Option.none()
    })

    return yield* untilSettled(attempt, explain)
  })

  const confirm = Effect.fn("Rotation.confirm")(function* (bearer: Bearers.Bearer, rotation_id: string, key: string) {
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
  }, persistence)

  const abort = Effect.fn("Rotation.abort")(
    function* (bearer: Bearers.Bearer, rotation_id: string, key: string) {
      const { bridge_id, project_id, replayed } = yield* end("aborted", bearer, rotation_id, key)
      return { answer: { rotation_id, status: "aborted" as const, project_id, bridge_id }, replayed }
    },
    // Only confirm asks for a predecessor that has not expired.
    Effect.catchTag("bridge_rotation_predecessor_expired", Effect.die),
    persistence
  )

  return { confirm, abort }
})

/** Why the bearer cannot end the rotation this way; undefined when it can, or did with the same key. */
const endRefusal = (found: Store.EndState, state: "confirmed" | "aborted", now: Date) => {
  if (found.revoked) return refuse("bridge_revoked")
  if (found.rotation_id === null || found.successor_id !== found.token_id) {
    const ended = endedRefusal(found, now)
    if (ended !== undefined) return ended
    return refuse(found.rotation_id === null ? "bridge_rotation_not_found" : "bridge_rotation_invalid_state")
  }
  return rotationRefusal(found, state, now)
}

/** What became of a rotation, for its successor; a rotation keeps the code of what ended it first. */
const rotationRefusal = (found: Store.EndState, state: "confirmed" | "aborted", now: Date) => {
  switch (found.rotation_state!) {
    case "confirmed": {
      const ended = endedRefusal(found, now)
      return ended ?? (state === "confirmed" ? undefined : refuse("bridge_rotation_confirmed"))
    }
    case "aborted":
      return state === "aborted" ? undefined : refuse("bridge_rotation_aborted")
    case "cancelled":
      return state === "confirmed" && predecessorExpired(found, now)
        ? refuse("bridge_rotation_predecessor_expired")
        : refuse("bridge_rotation_predecessor_revoked")
    case "pending":
    case "expired":
      if (state === "confirmed" && predecessorExpired(found, now)) return refuse("bridge_rotation_predecessor_expired")
      // Not told by the time alone: who settled it may have had a faster clock.
      return found.rotation_state === "expired" || hasPassed(found.rotation_expires_at!, now)
        ? refuse("bridge_rotation_expired")
        : undefined
  }
}

/** The predecessor's own end came, and before the window's. */
const predecessorExpired = (found: Store.EndState, now: Date) => {
  const expiry = found.predecessor_expires_at!
  const over = found.predecessor_state === "expired" || (found.predecessor_state === "active" && hasPassed(expiry, now))
  return over && hasPassed(expiry, found.rotation_expires_at!)
}
