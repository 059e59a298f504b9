/** Self (decisions.md, GET /bridge/v1/tokens/self): describes the token, its Bridge and its pending rotation. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import { hasPassed } from "../../wire/Instant.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"
import * as Store from "./TokenStore.ts"

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const tokens = yield* TokenCheck
  const store = Store.make(yield* SqlClient.SqlClient)

  return Effect.fnUntraced(
    function* (bearer: BearerToken) {
      const now = yield* clock.now
      const found = yield* tokens.requireKnown(yield* store.findSelf(yield* tokens.hashOf(bearer)))
      yield* tokens.requireActive(found, now)
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
})
