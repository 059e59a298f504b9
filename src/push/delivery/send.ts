/** One delivery: whether it may ring now (Verdict.ts), the token of its device, and the way to the provider. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed } from "../../platform/metrics/Metrics.ts"
import { kinds, rank } from "../../wire/mobile/Notifications.ts"
import type { Batch } from "./Batch.ts"
import { PushKeys } from "../PushKeys.ts"
import { doubling, untilMended } from "../channels/Outcome.ts"
import * as Pausing from "./pause.ts"
import { payload } from "./Payload.ts"
import { PushProvider } from "../channels/Provider.ts"
import * as Settling from "./settle.ts"
import * as Store from "./DeliveryStore.ts"
import { verdictOf } from "./Verdict.ts"

const slowly = doubling("1 minute")

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const keys = yield* PushKeys
  const provider = yield* PushProvider
  const { pause } = yield* Pausing.make
  const { judgeUnknown, retry, settle } = yield* Settling.make
  const store = Store.make(sql)

  /** True if the provider took it. */
  const send = Effect.fnUntraced(function* (row: Store.Claimed, batch: Batch) {
    const token = yield* cleared(row, batch)
    if (Option.isNone(token)) return false
    const response = yield* provider.send({
      delivery_id: row.delivery_id,
      environment: batch.environment,
      topic: row.topic,
      token: token.value,
      payload: payload(row, keys.alias(row.project_id).slice(0, 16)),
      collapse_id: keys.alias(row.collapse_key),
      immediate: rank(kinds[row.kind].priority) >= rank("high"),
      expires_at: row.expires_at
    })
    return yield* settle(row, response, batch)
  })

  /** The token of a delivery that may ring now; else it is suppressed or put back. */
  const cleared = Effect.fnUntraced(function* (row: Store.Claimed, batch: Batch) {
    const now = yield* clock.now
    const counted = (outcome: Parameters<typeof pushed>[1]) => count(pushed(batch.environment, outcome))
    const putBack = (until: Date, reason: string) =>
      store.postpone(row.delivery_id, until, "does not count", { status: null, reason }, batch.lease, now)
    const verdict = verdictOf(row, now)
    if (batch.paused) {
      yield* putBack(now, "paused")
      yield* counted("paused")
    } else if (verdict._tag === "Hold") {
      yield* putBack(verdict.until, verdict.reason)
      yield* counted("held")
    } else if (verdict._tag === "Suppress") {
      yield* store.end(row.delivery_id, "suppressed", { status: null, reason: verdict.reason }, batch.lease, now)
      yield* counted("suppressed")
    } else {
      const sealed = { token_key_id: row.token_key_id!, token_sealed: row.token_sealed! }
      const token = keys.open(sealed, row.device_id)
      if (Option.isNone(token)) yield* unreadable(row, batch)
      return token
    }
    return Option.none()
  }, persistence)

  /** The device keeps its token: a key that comes back makes it readable again. */
  const unreadable = Effect.fnUntraced(function* (row: Store.Claimed, batch: Batch) {
    if (!keys.knows(row.token_key_id!)) {
      const said = { status: null, reason: "token_key_unknown" }
      return yield* pause(row, { backoff: untilMended, fault: true }, said, batch)
    }
    yield* Effect.logError(Pausing.alarm).pipe(
      Effect.annotateLogs({ reason: "token_unreadable", device_id: row.device_id })
    )
    yield* retry(row, slowly, { status: null, reason: "token_unreadable" }, batch)
  })

  return { send, judgeUnknown }
})
