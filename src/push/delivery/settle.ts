/** What an answer of the provider makes of a delivery and its device (Outcome.ts), written down under the lease. */
import { Duration, Effect, Option, Random } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed } from "../../platform/metrics/Metrics.ts"
import { after } from "../../wire/Instant.ts"
import type { Batch } from "./Batch.ts"
import * as DeviceStore from "./DeviceStore.ts"
import { type Backoff, doubling, outcomeOf, type Response, untilMended } from "../channels/Outcome.ts"
import * as Pausing from "./pause.ts"
import * as Store from "./DeliveryStore.ts"

const mostAttempts = 8
const quickly = doubling("5 seconds")

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const { pause } = yield* Pausing.make
  const devices = DeviceStore.make(sql)
  const store = Store.make(sql)

  /** True if the provider took it: those of a batch are written down together. */
  const settle = Effect.fnUntraced(function* (row: Store.Claimed, response: Response, batch: Batch) {
    const outcome = outcomeOf(response)
    const said = { status: response.status ?? null, reason: response.reason ?? null }
    switch (outcome._tag) {
      case "Delivered":
        yield* count(pushed(batch.environment, "delivered"))
        return true
      case "Gone": {
        // A token that was registered since then is tried once more before it is believed to be gone.
        const since = row.last_status === 410 ? null : (outcome.since ?? null)
        if (!(yield* deactivate(row, since, said, batch))) yield* retry(row, quickly, said, batch)
        break
      }
      case "BadToken":
        batch.unknown.push([row, said])
        break
      case "Retry": {
        const until = yield* retry(row, outcome.backoff, said, batch)
        if (outcome.device) yield* devices.rest(row.device_id, until)
        break
      }
      case "Unprocessed":
        yield* retry(row, quickly, said, batch)
        break
      case "Pause":
        yield* pause(row, outcome, said, batch)
        break
      case "RenewProviderToken":
        // The provider was shown a new one already: a clock is wrong.
        yield* pause(row, { backoff: untilMended, fault: true }, said, batch)
        break
      case "Dead":
        yield* Effect.logError("The provider refuses a notification as malformed").pipe(Effect.annotateLogs(said))
        yield* giveUp(row, said, batch, yield* clock.now)
        break
    }
    return false
  }, persistence)

  /** Full jitter, so that what failed together does not come back together. */
  const retry = Effect.fnUntraced(function* (
    row: Store.Claimed,
    { atLeast, base, most }: Backoff,
    said: Store.Said,
    batch: Batch
  ) {
    const now = yield* clock.now
    const ceiling = Math.min(Duration.toMillis(most), Duration.toMillis(base) * 2 ** (row.attempts - 1))
    const until = after(now, Duration.sum(atLeast, Duration.millis(Math.ceil((yield* Random.next) * ceiling))))
    if (row.attempts >= mostAttempts) yield* giveUp(row, said, batch, now)
    else {
      yield* store.postpone(row.delivery_id, until, "counts", said, batch.lease, now)
      yield* count(pushed(batch.environment, "retried"))
    }
    return until
  })

  const giveUp = Effect.fnUntraced(function* (
    { delivery_id }: Store.Claimed,
    said: Store.Said,
    { environment, lease }: Batch,
    now: Date
  ) {
    yield* store.end(delivery_id, "dead", said, lease, now)
    yield* count(pushed(environment, "dead"))
  })

  const deactivate = Effect.fnUntraced(function* (
    { delivery_id, token_updated_at }: Store.Claimed,
    since: Date | null,
    said: Store.Said,
    { environment, lease }: Batch
  ) {
    const now = yield* clock.now
    const answered = { delivery_id, lease_token: lease.token, token_updated_at, ...said }
    const gone = Option.isSome(yield* devices.deactivate(answered, since, now, yield* traceAt(now)))
    if (gone) yield* count(pushed(environment, "gone"))
    return gone
  })

  /** One unknown token is a phone without the app. Many at once are the wrong environment: then nobody is touched. */
  const judgeUnknown = Effect.fnUntraced(function* (batch: Batch) {
    if (batch.unknown.length === 0) return
    const counted = yield* devices.countBadTokens(batch.environment)
    const before = Option.getOrElse(counted, () => ({ bad: 0, devices: 0 }))
    const now = new Set(batch.unknown.map(([{ device_id }]) => device_id)).size
    const bad = before.bad + now
    const many = bad >= 5 && bad * 5 > before.devices + now
    for (const [row, said] of batch.unknown) {
      if (many) yield* pause(row, { backoff: untilMended, fault: true }, said, batch)
      else if (!(yield* deactivate(row, null, said, batch))) yield* retry(row, quickly, said, batch)
    }
  }, persistence)

  return { settle, retry, judgeUnknown }
})
