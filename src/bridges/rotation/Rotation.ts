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
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { hasPassed } from "../../wire/Instant.ts"
import type { Aborted, Confirmed, Prepared, Revoked, Self } from "../../wire/bridges/RotationApi.ts"
import * as Bearers from "./Bearer.ts"
import type { Bearer, Guarded } from "./Bearer.ts"
import * as Ending from "./endRotation.ts"
import type { RotationRefusal } from "../../wire/bridges/RotationErrors.ts"
import * as Preparing from "./prepare.ts"
import * as Store from "./RotationStore.ts"

export class Rotation extends Context.Service<
  Rotation,
  {
    readonly prepare: (bearer: Bearer, key: string) => Effect.Effect<Replayable<Prepared>, Preparing.PrepareRefusal>
    readonly confirm: (
      bearer: Bearer,
      rotation_id: string,
      key: string
    ) => Effect.Effect<
      Replayable<Confirmed>,
      Ending.EndRefusal | RotationRefusal<"bridge_rotation_predecessor_expired">
    >
    readonly abort: (
      bearer: Bearer,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Aborted>, Ending.EndRefusal>
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
      const { guard, hashOf, known } = yield* Bearers.make
      const prepare = yield* Preparing.make
      const { abort, confirm } = yield* Ending.make
      const store = Store.make(sql)

      const self = Effect.fnUntraced(
        function* (bearer: Bearer) {
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
        },
        persistence,
        spanned("Rotation.self")
      )

      const revoke = Effect.fn("Rotation.revoke")(function* (bearer: Bearer) {
        const token_hash = yield* hashOf(bearer)
        const now = yield* clock.now
        const attempt = Effect.flatMap(traceAt(now), (trace) => store.revoke(token_hash, now, trace))
        const explain = Effect.gen(function* () {
          yield* guard(yield* known(yield* store.findBearer(token_hash)), now)
          return Option.none()
        })
        yield* untilSettled(attempt, explain)
        return { status: "revoked" as const, revoked_at: now }
      }, persistence)

      return { prepare, confirm, abort, revoke, self }
    })
  )
}
