/** Revoke (spec 4.7): ends the token for good and cancels its pending successor. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"
import * as Store from "./TokenStore.ts"

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const tokens = yield* TokenCheck
  const store = Store.make(yield* SqlClient.SqlClient)

  return Effect.fn("Rotation.revoke")(function* (bearer: BearerToken) {
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
})
