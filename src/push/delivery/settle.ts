/**
 * Records the result of each delivery under the lease of its batch. Between claim and release, only this file writes to
 * deliveries, devices and pauses.
 *
 * A result is settled as soon as it is known, so that the first delivery that pauses the environment stops the rest of
 * the batch. Two results wait for the end of the batch: accepted deliveries, which are marked by one statement, and
 * unknown tokens, which are judged together.
 */
import { Duration, Effect, Option, Random, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed, pushPauses } from "../../platform/metrics/Metrics.ts"
import { after } from "../../wire/Instant.ts"
import { isOfTargets, type Lane } from "../../wire/mobile/Notifications.ts"
import { type Backoff, doubling, misconfigured, type Outcome, quickly } from "../channels/Outcome.ts"
import * as DeviceFeedbackStore from "./DeviceFeedbackStore.ts"
import * as LeaseStore from "./LeaseStore.ts"
import type { ClaimedDelivery, Lease, Result } from "./LeaseStore.ts"
import { afterPause } from "./Pauses.ts"
import * as PauseStore from "./PauseStore.ts"
import type { Attempt } from "./send.ts"

/** Deliveries of one environment, claimed under one lease. */
export interface Batch {
  readonly environment: Lane
  readonly lease: Lease
  /** True as soon as one delivery has paused the environment: the others need not be tried. */
  readonly paused: Ref.Ref<boolean>
}

export const makeBatch = (environment: Lane, lease: Lease): Effect.Effect<Batch> =>
  Effect.map(Ref.make(false), (paused) => ({ environment, lease, paused }))

/** The work left for a delivery at the end of its batch. */
export type Remainder =
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "MarkDelivered"; readonly delivery_id: string }
  | {
      readonly _tag: "JudgeToken"
      readonly delivery: ClaimedDelivery
      readonly result: Result
      readonly ends: boolean
    }

const nothing: Remainder = { _tag: "Nothing" }
const maxAttempts = 8
const slowly = doubling("1 minute")
/** The log line of failures that only the operator can fix. */
const alarm = "Push delivery needs the operator"

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const leases = LeaseStore.make(sql)
  const devices = DeviceFeedbackStore.make(sql)
  const pauses = PauseStore.make(sql)
  /** Environments for which the provider has accepted a token since this process started: their configuration is right. */
  const proven = new Set<Lane>()

  const settle = Effect.fnUntraced(function* (delivery: ClaimedDelivery, attempt: Attempt, batch: Batch) {
    switch (attempt._tag) {
      case "Skip":
        yield* putBack(delivery, yield* clock.now, "paused", batch)
        yield* count(pushed(batch.environment, "paused"))
        break
      case "Hold":
        yield* putBack(delivery, attempt.until, attempt.reason, batch)
        yield* count(pushed(batch.environment, "held"))
        break
      case "Suppress": {
        const result = { status: null, reason: attempt.reason }
        yield* leases.end(delivery.delivery_id, "suppressed", result, batch.lease, yield* clock.now)
        yield* count(pushed(batch.environment, "suppressed"))
        break
      }
      case "KeyUnknown": {
        // The device keeps its token: it can be opened again once the key is back.
        const result = { status: null, reason: "token_key_unknown" }
        if (isOfTargets(batch.environment)) {
          yield* Effect.logError(alarm).pipe(
            Effect.annotateLogs({ reason: result.reason, device_id: delivery.device_id })
          )
          yield* retryDevice(delivery, misconfigured.backoff, result, batch)
        } else yield* pause(delivery, misconfigured, result, batch)
        break
      }
      case "Unreadable": {
        const result = { status: null, reason: "token_unreadable" }
        yield* Effect.logError(alarm).pipe(
          Effect.annotateLogs({ reason: result.reason, device_id: delivery.device_id })
        )
        yield* retry(delivery, slowly, result, batch)
        break
      }
      case "Answered": {
        const { outcome, reason, status } = attempt.answer
        return yield* settleAnswer(delivery, outcome, { status, reason }, batch)
      }
    }
    return nothing
  }, persistence)

  const settleAnswer = Effect.fnUntraced(function* (
    delivery: ClaimedDelivery,
    outcome: Outcome,
    result: Result,
    batch: Batch
  ) {
    switch (outcome._tag) {
      case "Delivered":
        proven.add(batch.environment)
        yield* count(pushed(batch.environment, "delivered"))
        return { _tag: "MarkDelivered", delivery_id: delivery.delivery_id } satisfies Remainder
      case "BadToken":
        return { _tag: "JudgeToken", delivery, result, ends: outcome.ends } satisfies Remainder
      case "Gone": {
        // A token registered after `since` is tried once more before the provider is believed.
        const since = delivery.last_status === 410 ? null : (outcome.since ?? null)
        if (!(yield* deactivate(delivery, since, result, batch))) yield* retry(delivery, quickly, result, batch)
        break
      }
      case "Retry": {
        if (outcome.device) yield* retryDevice(delivery, outcome.backoff, result, batch)
        else yield* retry(delivery, outcome.backoff, result, batch)
        break
      }
      case "Pause":
        yield* pause(delivery, outcome, result, batch)
        break
      case "Dead":
        yield* Effect.logError("The provider rejected a notification as malformed").pipe(
          Effect.annotateLogs({ ...result })
        )
        yield* giveUp(delivery, result, batch, yield* clock.now)
        break
    }
    return nothing
  })

  /** Returns the delivery to the queue without counting the attempt. */
  const putBack = Effect.fnUntraced(function* (
    { delivery_id }: ClaimedDelivery,
    until: Date,
    reason: string,
    { lease }: Batch
  ) {
    yield* leases.postpone(delivery_id, until, "does not count", { status: null, reason }, lease, yield* clock.now)
  })

  /** Full jitter, so that deliveries that failed together are not retried together. */
  const retry = Effect.fnUntraced(function* (
    delivery: ClaimedDelivery,
    { atLeast, base, max }: Backoff,
    result: Result,
    batch: Batch
  ) {
    const now = yield* clock.now
    const ceiling = Math.min(Duration.toMillis(max), Duration.toMillis(base) * 2 ** (delivery.attempts - 1))
    const until = after(now, Duration.sum(atLeast, Duration.millis(Math.ceil((yield* Random.next) * ceiling))))
    if (delivery.attempts >= maxAttempts) yield* giveUp(delivery, result, batch, now)
    else {
      yield* leases.postpone(delivery.delivery_id, until, "counts", result, batch.lease, now)
      yield* count(pushed(batch.environment, "retried"))
    }
    return until
  })

  /** Sends nothing to the device before the delivery is tried again. */
  const retryDevice = Effect.fnUntraced(function* (
    delivery: ClaimedDelivery,
    backoff: Backoff,
    result: Result,
    batch: Batch
  ) {
    yield* devices.rest(delivery.device_id, yield* retry(delivery, backoff, result, batch))
  })

  const giveUp = Effect.fnUntraced(function* (
    { delivery_id }: ClaimedDelivery,
    result: Result,
    { environment, lease }: Batch,
    now: Date
  ) {
    yield* leases.end(delivery_id, "dead", result, lease, now)
    yield* count(pushed(environment, "dead"))
  })

  /** False when the device has a new token by now, or a token registered after `since`. */
  const deactivate = Effect.fnUntraced(function* (
    { delivery_id, token_updated_at }: ClaimedDelivery,
    since: Date | null,
    result: Result,
    { environment, lease }: Batch
  ) {
    const now = yield* clock.now
    const answered = { delivery_id, lease_token: lease.token, token_updated_at, ...result }
    const gone = Option.isSome(yield* devices.deactivate(answered, since, now, yield* traceAt(now)))
    if (gone) yield* count(pushed(environment, "gone"))
    return gone
  })

  /** The environment failed, not the delivery: no attempt is counted. */
  const pause = Effect.fnUntraced(function* (
    { delivery_id }: ClaimedDelivery,
    { backoff, fault }: { readonly backoff: Backoff; readonly fault: boolean },
    result: Result,
    { environment, lease, paused }: Batch
  ) {
    const now = yield* clock.now
    // Deliveries in flight fail for the same reason: only the first one of the batch writes the pause.
    const isFirst = !(yield* Ref.getAndSet(paused, true))
    const written = isFirst
      ? yield* pauses.pause(environment, backoff, result.reason ?? "", now, lease.until)
      : Option.none()
    // This delivery may itself be the cause, so the first probe after the pause takes another one.
    const until = fault && Option.isSome(written) ? after(written.value.paused_until, afterPause) : now
    yield* leases.postpone(delivery_id, until, "does not count", result, lease, now)
    yield* count(pushed(environment, "paused"))
    if (Option.isNone(written)) return
    yield* count(pushPauses(environment, fault ? "configuration" : "provider"))
    const facts = { environment, ...result, until: written.value.paused_until.toISOString() }
    yield* (fault ? Effect.logError(alarm) : Effect.logWarning("Push delivery pauses")).pipe(Effect.annotateLogs(facts))
  })

  /** The end of a batch. */
  const finish = Effect.fnUntraced(function* (remainders: ReadonlyArray<Remainder>, batch: Batch) {
    const delivered = remainders.flatMap((one) => (one._tag === "MarkDelivered" ? [one.delivery_id] : []))
    if (delivered.length > 0) yield* leases.deliver(delivered, batch.lease, yield* clock.now)
    const unknown = remainders.filter((one) => one._tag === "JudgeToken")
    if (unknown.length === 0) return
    const areMany = yield* tooManyUnknown(new Set(unknown.map(({ delivery }) => delivery.device_id)).size, batch)
    const isProven = proven.has(batch.environment)
    for (const { delivery, ends, result } of unknown) {
      if (!areMany && ends) {
        if (!(yield* deactivate(delivery, null, result, batch))) yield* retry(delivery, quickly, result, batch)
      } else if (isProven) yield* retryDevice(delivery, misconfigured.backoff, result, batch)
      else yield* pause(delivery, misconfigured, result, batch)
    }
  }, persistence)

  /**
   * One unknown token means a phone without the app. Many at once mean a wrong environment, of the service or of a build
   * of the app: no device is deactivated. If the provider accepts others, the devices rest, because the phones of one
   * project must not stop the notifications of all.
   */
  const tooManyUnknown = Effect.fnUntraced(function* (now: number, { environment }: Batch) {
    const before = Option.getOrElse(yield* devices.countBadTokens(environment), () => ({ bad: 0, devices: 0 }))
    const bad = before.bad + now
    return bad >= 5 && bad * 5 > before.devices + now
  })

  return { settle, finish }
})
