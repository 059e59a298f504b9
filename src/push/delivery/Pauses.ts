/**
 * Pauses of a push environment: when the provider fails, all replicas stop sending for a while and then try a single
 * delivery, the probe. settle.ts starts pauses; this file enforces and ends them.
 */
import { Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import type { Lane } from "../../wire/mobile/Notifications.ts"
import * as PauseStore from "./PauseStore.ts"

/** Deliveries per claim. */
const batchSize = 100
/** How much longer than the pause the delivery that may have caused it waits. */
export const afterPause = Duration.seconds(30)

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const store = PauseStore.make(sql)

  /** How many deliveries may be claimed: a batch, none during a pause, one as a probe after it. */
  const admission = Effect.fnUntraced(function* (environment: Lane, now: Date, until: Date) {
    const found = yield* store.findPause(environment)
    if (Option.isNone(found) || found.value.paused_until === null) return { limit: batchSize, probing: false }
    if (!hasPassed(found.value.paused_until, now)) return { limit: 0, probing: false }
    return { limit: Option.isSome(yield* store.takeProbe(environment, now, until)) ? 1 : 0, probing: true }
  }, persistence)

  /** After a probe that did not pause the environment again. */
  const resume = Effect.fnUntraced(function* (environment: Lane) {
    if ((yield* store.resume(environment)).length > 0) {
      yield* Effect.logInfo("Push delivery resumes").pipe(Effect.annotateLogs({ environment }))
    }
  }, persistence)

  /** Runs at startup, because the restart may have fixed the configuration. */
  const endAll = Effect.flatMap(clock.now, (now) => store.endPauses(now, after(now, afterPause))).pipe(persistence)

  return { admission, resume, endAll }
})
