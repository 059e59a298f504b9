/**
 * The life of a Bridge token after enrollment: two-phase rotation and revocation (spec 3.2 to 3.4, 4.3 to 4.7).
 *
 * 1. Prepare mints a successor beside the active token, its predecessor, and opens the confirmation window (prepare.ts).
 * 2. The Bridge stores both tokens and confirms with the successor as bearer. One statement revokes the predecessor and
 *    promotes the successor to the active token (confirmOrAbort.ts).
 * 3. If the Bridge aborts instead, or the window passes, only the successor ends.
 *
 * The successor is derived from the predecessor that prepare presents, so every replica answers an exact retry with the
 * same successor. Whichever response is lost, the Bridge holds a valid token and can repeat its request.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, sharedPersistence, untilSettled } from "../../platform/database/Persistence.ts"
import { together } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import type { Presented } from "../../platform/proofs/DpopProof.ts"
import type { Aborted, Confirmed, Prepared, Revoked, Self, RotationRefusal } from "../../wire/bridges/RotationApi.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { hasPassed } from "../../wire/Instant.ts"
import { Possession } from "../possession/Possession.ts"
import * as ConfirmOrAbort from "./confirmOrAbort.ts"
import * as Prepare from "./prepare.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"
import * as Store from "./TokenStore.ts"

export class Rotation extends Context.Service<
  Rotation,
  {
    readonly prepare: (
      bearer: BearerToken,
      key: string
    ) => Effect.Effect<Replayable<Prepared>, RotationRefusal<"prepare">>
    readonly confirm: (
      bearer: BearerToken,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Confirmed>, RotationRefusal<"confirm">>
    readonly abort: (
      bearer: BearerToken,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Aborted>, RotationRefusal<"abort">>
    /** Final for this token; cancels its pending successor (spec 4.7). */
    readonly revoke: (bearer: BearerToken) => Effect.Effect<Revoked, RotationRefusal<"revoke">>
    /**
     * Whose token this is, and which rotation is pending (decisions.md, GET /bridge/v1/tokens/self). `presented`: whether
     * the caller has to prove its key is checked with the same lookup.
     */
    readonly self: (bearer: BearerToken, presented?: Presented) => Effect.Effect<Self, RotationRefusal<"self">>
  }
>()("service/bridges/Rotation") {
  static readonly layer = Layer.effect(
    Rotation,
    Effect.gen(function* () {
      const clock = yield* DatabaseClock
      const tokens = yield* TokenCheck
      const possession = yield* Possession
      const store = Store.make(yield* SqlClient.SqlClient)
      const findSelf = yield* together(store.self)
      const prepare = yield* Prepare.make
      const { abort, confirm } = yield* ConfirmOrAbort.make

      const revoke = Effect.fn("Rotation.revoke")(function* (bearer: BearerToken) {
        const token_hash = yield* tokens.hashOf(bearer)
        const now = yield* clock.now
        const attempt = Effect.flatMap(traceAt(now), (trace) => store.revoke(token_hash, now, trace))
        const refuseUnlessActive = Effect.gen(function* () {
          yield* tokens.requireActive(yield* tokens.requireKnown(yield* store.findToken(token_hash)), now)
          return Option.none()
        })
        yield* untilSettled(attempt, refuseUnlessActive)
        return { status: "revoked" as const, revoked_at: now }
      }, persistence)

      const self = Effect.fnUntraced(
        function* (bearer: BearerToken, presented?: Presented) {
          const now = yield* clock.now
          const found = yield* tokens.requireKnown(yield* findSelf({ token_hash: yield* tokens.hashOf(bearer), now }))
          if (presented !== undefined) yield* possession.requireNone(found, presented, now)
          yield* tokens.requireActive(found, now)
          const isOpen = (until: Date | null): until is Date => until !== null && !hasPassed(until, now)
          return {
            project_id: found.project_id,
            bridge_id: found.bridge_id,
            device_id: found.device_id,
            display_name: found.display_name,
            account_references: found.account_references,
            scope: "bridge:transport" as const,
            token_id: found.token_id,
            expires_at: found.expires_at!,
            pending_rotation: isOpen(found.pending_until)
              ? { rotation_id: found.pending_rotation_id!, confirmation_expires_at: found.pending_until }
              : null,
            key: {
              public_key_fingerprint: found.public_key_fingerprint,
              since: found.key_since,
              rotation_required: found.key_rotation_required_since !== null,
              pending_rotation: isOpen(found.key_rotation_until)
                ? {
                    key_rotation_id: found.pending_key_rotation_id!,
                    confirmation_expires_at: found.key_rotation_until
                  }
                : null
            }
          }
        },
        sharedPersistence,
        spanned("Rotation.self")
      )

      return { prepare, confirm, abort, revoke, self }
    })
  ).pipe(Layer.provide(TokenCheck.layer))
}
