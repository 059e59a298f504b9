/**
 * A provider that fails is left alone for a while, by every replica, and tried again with one delivery.
 *
 * No attempt is counted meanwhile: what failed is the environment, not the delivery.
 */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed, pushPauses } from "../../platform/metrics/Metrics.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import type { Environment } from "../../wire/mobile/Notifications.ts"
import type { Batch } from "./Batch.ts"
import type { Backoff } from "../channels/Outcome.ts"
import * as PauseStore from "./PauseStore.ts"
import * as Store from "./DeliveryStore.ts"

/** Of one claim. */
const most = 100
/** How long after a pause the delivery waits that may itself be what is wrong. */
const behind = Duration.seconds(30)
/** Only configuration or the operator can mend it: said where people look. */
export const alarm = "Push delivery needs its operator"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const pauses = PauseStore.make(sql)
  const store = Store.make(sql)

  /** How many may be claimed: a batch, none during a pause, one after it. */
  const admission = Effect.fnUntraced(function* (environment: Environment, now: Date, until: Date) {
    const found = yield* pauses.findPause(environment)
    if (Option.isNone(found) || found.value.paused_until === null) return { limit: most, probing: false }
    if (!hasPassed(found.value.paused_until, now)) return { limit: 0, probing: false }
    return { limit: Option.isSome(yield* pauses.takeProbe(environment, now, until)) ? 1 : 0, probing: true }
  }, persistence)

  const pause = Effect.fnUntraced(function* (
    { delivery_id }: Store.Claimed,
    { backoff, fault }: { readonly backoff: Backoff; readonly fault: boolean },
    said: Store.Said,
    batch: Batch
  ) {
    const now = yield* clock.now
    // The first of the batch to say so; the others in flight say the same of the same moment.
    const first = !batch.paused
    batch.paused = true
    const paused = first
      ? yield* pauses.pause(batch.environment, backoff, said.reason ?? "", now, batch.lease.until)
      : Option.none()
    // It may be this one that is wrong: the first probe after the pause asks with another.
    const until = fault && Option.isSome(paused) ? after(paused.value.paused_until, behind) : now
    yield* store.postpone(delivery_id, until, "does not count", said, batch.lease, now)
    yield* count(pushed(batch.environment, "paused"))
    if (Option.isNone(paused)) return
    yield* count(pushPauses(batch.environment, fault ? "configuration" : "provider"))
    const facts = { environment: batch.environment, ...said, until: paused.value.paused_until.toISOString() }
    yield* (fault ? Effect.logError(alarm) : Effect.logWarning("Push delivery pauses")).pipe(Effect.annotateLogs(facts))
  })

  const resume = Effect.fnUntraced(function* (environment: Environment) {
    if ((yield* pauses.resume(environment)).length > 0) {
      yield* Effect.logInfo("Push delivery goes on").pipe(Effect.annotateLogs({ environment }))
    }
  }, persistence)

  /** A restart may have mended what was wrong. */
  const endAll = Effect.flatMap(clock.now, (now) => pauses.endPauses(now, after(now, behind))).pipe(persistence)

  return { admission, pause, resume, endAll }
})
