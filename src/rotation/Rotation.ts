/**
 * The life of a Bridge token after enrollment: two-phase rotation and revocation (spec 3.2 to 3.4, 4.3 to 4.7).
 *
 * 1. Prepare mints a successor beside the active token, the predecessor, and opens the confirmation window.
 * 2. The Bridge stores both, then confirms with the successor as bearer: in one statement the predecessor is revoked and
 *    the successor becomes the token.
 * 3. Or it aborts, or lets the window pass: only the successor ends.
 *
 * The successor is derived from the predecessor that prepare presents, so an exact retry gets the same one from any
 * replica. However a response is lost, the Bridge holds a good token and may repeat what it asked.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../audit/Audit.ts"
import { tokenAgain } from "../bridge/Derived.ts"
import { isReuse, endedRefusal, refusalOf, type TokenState } from "../bridge/Guard.ts"
import { Settings } from "../Config.ts"
import { KeyRing } from "../crypto/Derivation.ts"
import { salt, uuidAt } from "../crypto/Random.ts"
import { equal, sha256 } from "../crypto/Sha256.ts"
import * as Tokens from "../crypto/Tokens.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence, untilSettled } from "../database/Persistence.ts"
import { Caller, type Replayable } from "../wire/Headers.ts"
import { after, hasPassed, secondsUntil } from "../wire/Instant.ts"
import type { Aborted, Confirmed, Prepared, Revoked, Self } from "./Api.ts"
import { refuse, type RotationRefusal } from "./Errors.ts"
import * as Store from "./Store.ts"

type Guarded = RotationRefusal<
  | "bridge_token_invalid"
  | "bridge_token_expired"
  | "bridge_token_revoked"
  | "bridge_token_pending"
  | "bridge_revoked"
  | "bridge_persistence_error"
>

type PrepareRefusal =
  | Guarded
  | RotationRefusal<
      "bridge_rotation_in_progress" | "bridge_rotation_expired" | "bridge_rotation_aborted" | "idempotency_conflict"
    >

type EndRefusal =
  | Exclude<Guarded, RotationRefusal<"bridge_token_pending">>
  | RotationRefusal<
      | "bridge_rotation_not_found"
      | "bridge_rotation_expired"
      | "bridge_rotation_aborted"
      | "bridge_rotation_confirmed"
      | "bridge_rotation_invalid_state"
      | "bridge_rotation_predecessor_revoked"
      | "idempotency_conflict"
    >

type Bearer = Redacted.Redacted<string>

export class Rotation extends Context.Service<
  Rotation,
  {
    readonly prepare: (bearer: Bearer, key: string) => Effect.Effect<Replayable<Prepared>, PrepareRefusal>
    readonly confirm: (
      bearer: Bearer,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Confirmed>, EndRefusal | RotationRefusal<"bridge_rotation_predecessor_expired">>
    readonly abort: (bearer: Bearer, rotation_id: string, key: string) => Effect.Effect<Replayable<Aborted>, EndRefusal>
    /** Terminal for this token; cancels its pending successor. */
    readonly revoke: (bearer: Bearer) => Effect.Effect<Revoked, Guarded>
    readonly self: (bearer: Bearer) => Effect.Effect<Self, Guarded>
  }
>()("service/rotation/Rotation") {
  static readonly layer = Layer.effect(
    Rotation,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const { bridge } = yield* Settings
      const store = Store.make(sql)
      const tokens = KeyRing.make({
        purpose: "bridge/v1/access-token",
        current: bridge.tokenSecret,
        previous: Option.fromUndefinedOr(bridge.tokenSecretPrevious)
      })

      const hashOf = Effect.fnUntraced(function* (bearer: Bearer) {
        if (!Tokens.isToken("sbt", Redacted.value(bearer))) return yield* refuse("bridge_token_invalid")
        return Tokens.hash(bearer)
      })

      const known = <A>(found: Option.Option<A>) =>
        Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(refuse("bridge_token_invalid"))

      const suspect = (action: string, code: string, token: TokenState, now: Date) =>
        audit.refused(now, {
          action,
          code,
          project_id: token.project_id,
          actor: `bridge:${token.bridge_id}`,
          subject: { bridge_id: token.bridge_id, token_id: token.token_id }
        })

      /** Passes for an active token of an active identity. */
      const guard = Effect.fnUntraced(function* (token: TokenState, now: Date) {
        const refusal = refusalOf(token, now)
        if (refusal === undefined) return
        if (isReuse(token, now)) yield* suspect("bridge.token_reused_after_rotation", refusal._tag, token, now)
        return yield* refusal
      })

      const self = Effect.fn("Rotation.self")(function* (bearer: Bearer) {
        const now = yield* clock.now
        const found = yield* known(yield* store.findSelf(yield* hashOf(bearer)))
        yield* guard(found, now)
        const pending = found.pending_until !== null && !hasPassed(found.pending_until, now)
        return {
          project_id: found.project_id,
          bridge_id: found.bridge_id,
          device_id: found.device_id,
          display_name: found.display_name,
          account_references: found.account_references,
          scope: "bridge:transport" as const,
          token_id: found.token_id,
          expires_at: found.expires_at!,
          pending_rotation: pending
            ? { rotation_id: found.pending_rotation_id!, confirmation_expires_at: found.pending_until }
            : null
        }
      }, persistence)

      const prepare = Effect.fn("Rotation.prepare")(function* (bearer: Bearer, key: string) {
        const token_hash = yield* hashOf(bearer)
        const now = yield* clock.now
        const key_hash = sha256(key)
        const answerOf = (rotation_id: string, successor_token: Bearer, confirmation_expires_at: Date) => ({
          rotation_id,
          successor_token,
          token_type: "Bearer" as const,
          scope: "bridge:transport" as const,
          confirmation_expires_at
        })

        const attempt = Effect.gen(function* () {
          const rotation_id = yield* uuidAt(now)
          const token_id = yield* uuidAt(now)
          const derivation_salt = yield* salt
          const derived = tokens.current.derive("rotate", [token_id, rotation_id, derivation_salt, bearer])
          const successor_token = Tokens.format("sbt", derived)
          const successor = {
            rotation_id,
            token_id,
            token_hash: Tokens.hash(successor_token),
            derivation_salt,
            key_id: tokens.current.id,
            confirmation_expires_at: after(now, bridge.rotationTtl)
          }
          const prepared = yield* store.prepare(token_hash, key_hash, successor, now, yield* traceAt(now))
          return Option.map(prepared, () => ({
            answer: answerOf(rotation_id, successor_token, successor.confirmation_expires_at),
            replayed: false
          }))
        })

        const explain = Effect.gen(function* () {
          const found = yield* known(yield* store.findPrepare(token_hash, key_hash))
          yield* guard(found, now)
          if (found.key_rotation_id !== null) return Option.some(yield* replay(found))
          if (found.pending_until === null || hasPassed(found.pending_until, now)) return Option.none()
          const { address } = yield* Caller
          if (address !== found.pending_prepared_from) {
            yield* suspect("bridge.rotation_prepared_elsewhere", "bridge_rotation_in_progress", found, now)
          }
          return yield* refuse("bridge_rotation_in_progress", secondsUntil(found.pending_until, now))
        })

        /** The rotation that this key made says what the key is worth, whatever else is pending. */
        const replay = Effect.fnUntraced(function* (found: Store.PrepareState) {
          if (found.key_predecessor_id !== found.token_id) return yield* refuse("idempotency_conflict")
          if (found.key_state === "aborted") return yield* refuse("bridge_rotation_aborted")
          const until = found.key_confirmation_expires_at!
          if (found.key_state !== "pending" || hasPassed(until, now)) return yield* refuse("bridge_rotation_expired")
          const stored = { hash: found.key_token_hash!, key_id: found.key_key_id! }
          const fields = [found.key_successor_id!, found.key_rotation_id!, found.key_salt!, bearer]
          const successor = yield* tokenAgain(tokens, stored, "rotate", fields)
          return { answer: answerOf(found.key_rotation_id!, successor, until), replayed: true }
        })

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
      }, persistence)

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

      const end = Effect.fnUntraced(function* <State extends "confirmed" | "aborted">(
        state: State,
        bearer: Bearer,
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

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
      })

      const confirm = Effect.fn("Rotation.confirm")(function* (bearer: Bearer, rotation_id: string, key: string) {
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
        function* (bearer: Bearer, rotation_id: string, key: string) {
          const { bridge_id, project_id, replayed } = yield* end("aborted", bearer, rotation_id, key)
          return { answer: { rotation_id, status: "aborted" as const, project_id, bridge_id }, replayed }
        },
        // Only confirm asks for a predecessor that has not expired.
        Effect.catchTag("bridge_rotation_predecessor_expired", Effect.die),
        persistence
      )

      const revoke = Effect.fn("Rotation.revoke")(function* (bearer: Bearer) {
        const token_hash = yield* hashOf(bearer)
        const now = yield* clock.now
        const attempt = Effect.flatMap(traceAt(now), (trace) => store.revoke(token_hash, now, trace))
        const explain = Effect.gen(function* () {
          yield* guard(yield* known(yield* store.findBearer(token_hash)), now)
          return Option.none()
        })
        yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
        return { status: "revoked" as const, revoked_at: now }
      }, persistence)

      return { prepare, confirm, abort, revoke, self }
    })
  )
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
