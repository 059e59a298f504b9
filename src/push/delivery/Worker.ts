/**
 * Delivery (spec 1.4): takes notifications from the outbox and sends them to the provider, at least once each.
 *
 * 1. claim.ts leases a batch for thirty seconds, on any number of replicas at once.
 * 2. send.ts checks whether each delivery may still be sent, and sends it outside any transaction. Its id and collapse
 *    id are the same on every attempt, so that the phone shows a repeated notification once.
 * 3. settle.ts writes the result under the lease. The rows of a process that dies before that are claimed again once
 *    the lease has ended.
 */
import {
  Array,
  Clock,
  Context,
  Duration,
  Effect,
  Exit,
  Fiber,
  FiberSet,
  Layer,
  Option,
  Ref,
  Schedule,
  type Scope
} from "effect"
import { SqlClient } from "effect/sql"
import { uuid } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed, pushOutcomes, pushPauses } from "../../platform/metrics/Metrics.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { after } from "../../wire/Instant.ts"
import { isOfTargets, type Lane, lanes } from "../../wire/mobile/Notifications.ts"
import { Outbox } from "../outbox/Outbox.ts"
import type { Outcome } from "../channels/Outcome.ts"
import * as Claim from "./claim.ts"
import * as LeaseStore from "./LeaseStore.ts"
import type { ClaimedDelivery, Lease } from "./LeaseStore.ts"
import * as Pauses from "./Pauses.ts"
import * as Send from "./send.ts"
import * as Settle from "./settle.ts"

/** Deliveries in flight per batch. Each has ten seconds; the lease outlasts them. */
const concurrency = 50
const leaseDuration = Duration.seconds(30)
/** Outcomes after which nothing else is sent to a target for now. */
const concernsTarget: ReadonlySet<Outcome["_tag"]> = new Set(["Retry", "Gone"])
/** How long deliveries to one target may take together: the last one begins by then. */
const targetDuration = Duration.seconds(15)
/** The pause of a lane of targets after a full claim. A claim for each place that gets free would read too many rows. */
const betweenFullClaims = Duration.millis(100)

type Unavailable = SharedRefusal<"bridge_persistence_error">

export class Worker extends Context.Service<
  Worker,
  {
    /** Claims and carries out one batch per lane; returns how many deliveries were claimed. */
    readonly round: Effect.Effect<number, Unavailable>
    /**
     * Runs the rounds of each lane in the background of the scope: back to back while there is work, otherwise when woken
     * and every second. When the scope closes, deliveries in flight get five seconds; the rest is released.
     */
    readonly start: Effect.Effect<void, never, Scope.Scope>
  }
>()("service/push/Worker") {
  static readonly layer = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const outbox = yield* Outbox
      const pauses = yield* Pauses.make
      const claim = yield* Claim.make
      const send = yield* Send.make
      const { finish, settle } = yield* Settle.make
      const leases = LeaseStore.make(sql)
      /** Tokens of the leases whose batch is not finished. */
      const open = new Set<string>()

      const round = Effect.gen(function* () {
        const claimed = yield* Effect.forEach(lanes, roundOf, { concurrency: "unbounded" })
        return claimed.reduce((sum, count) => sum + count, 0)
      })

      const roundOf = (lane: Lane): Effect.Effect<number, Unavailable> =>
        isOfTargets(lane)
          ? Effect.flatMap(claimTargets(lane, new Set()), ({ claimed, work }) =>
              Effect.as(
                Effect.forEach(work.values(), (one) => one, { concurrency: "unbounded", discard: true }),
                claimed
              )
            )
          : batchRound(lane)

      const batchRound = Effect.fn("Worker.round")(function* (lane: Lane) {
        const now = yield* clock.now
        const until = after(now, leaseDuration)
        const { limit, probing } = yield* pauses.admission(lane, now, until)
        if (limit === 0) return 0
        const batch = yield* Settle.makeBatch(lane, { token: yield* uuid, until })
        open.add(batch.lease.token)
        return yield* carryOut(batch, limit, probing, now).pipe(
          // An interrupted batch stays open: the finalizer releases it.
          Effect.onExit((exit) => Effect.sync(() => Exit.hasInterrupts(exit) || open.delete(batch.lease.token)))
        )
      })

      const carryOut = Effect.fnUntraced(function* (batch: Settle.Batch, limit: number, probing: boolean, now: Date) {
        const claimed = yield* claim(batch.environment, limit, batch.lease, now)
        const isPaused = Ref.get(batch.paused)
        const attempt = (delivery: ClaimedDelivery) =>
          Effect.flatMap(send(delivery, batch.environment, isPaused), (result) => settle(delivery, result, batch))
        // A delivery whose result cannot be written stays leased and is claimed again after the lease.
        const settled = yield* Effect.forEach(claimed, (delivery) => Effect.option(attempt(delivery)), { concurrency })
        yield* finish(Array.getSomes(settled), batch)
        if (probing && claimed.length > 0 && !(yield* isPaused)) yield* pauses.resume(batch.environment)
        return claimed.length
      })

      /** Claims deliveries of targets that are not busy, for one free place or more; returns the work of each target. */
      const claimTargets = Effect.fn("Worker.claimTargets")(function* (lane: Lane, busy: ReadonlySet<string>) {
        const now = yield* clock.now
        const lease = { token: yield* uuid, until: after(now, leaseDuration) }
        const free = concurrency - busy.size
        open.add(lease.token)
        const claimed = yield* claim(lane, free, lease, now, [...busy])
        const groups = Map.groupBy(claimed, ({ device_id }) => device_id)
        let left = groups.size
        if (left === 0) open.delete(lease.token)
        const work = new Map(
          [...groups].map(([device_id, deliveries]) => [
            device_id,
            carryOutTarget(lane, lease, deliveries).pipe(
              Effect.ignore,
              Effect.onExit((exit) =>
                Effect.sync(() => Exit.hasInterrupts(exit) || --left > 0 || open.delete(lease.token))
              )
            )
          ])
        )
        return { claimed: claimed.length, isFull: claimed.length === free, work }
      })

      /** One after another. After a failure that concerns the target, or too long, the others go back to the queue. */
      const carryOutTarget = Effect.fnUntraced(function* (
        lane: Lane,
        lease: Lease,
        deliveries: ReadonlyArray<ClaimedDelivery>
      ) {
        const batch = yield* Settle.makeBatch(lane, lease)
        const isPaused = Ref.get(batch.paused)
        const since = yield* Clock.currentTimeMillis
        for (const delivery of deliveries) {
          const isLate = (yield* Clock.currentTimeMillis) - since > Duration.toMillis(targetDuration)
          const result = yield* send(delivery, lane, isLate ? Effect.succeed(true) : isPaused)
          const remainder = yield* Effect.option(settle(delivery, result, batch))
          yield* finish(Option.toArray(remainder), batch)
          if (result._tag === "Answered" && concernsTarget.has(result.answer.outcome._tag))
            yield* Ref.set(batch.paused, true)
        }
      })

      let stopping = false
      const idle = (lane: Lane) => Effect.raceFirst(Effect.sleep("1 second"), outbox.woken(lane))
      const untilStopped = (lane: Lane, rounds: Effect.Effect<number, Unavailable, Scope.Scope>) =>
        rounds.pipe(
          Effect.catch(() => Effect.succeed(0)),
          Effect.catchDefect((defect) =>
            Effect.as(Effect.logError("Push delivery failed", defect instanceof Error ? defect.name : ""), 0)
          ),
          Effect.flatMap((claimed) => (claimed > 0 || stopping ? Effect.void : idle(lane))),
          Effect.repeat({ until: () => stopping })
        )
      /** Does not wait for a target that takes long: the next round leaves it out. */
      const targetRounds = (lane: Lane) =>
        Effect.gen(function* () {
          const busy = new Set<string>()
          const inFlight = yield* FiberSet.make()
          const placeFree = Effect.repeat(Effect.sleep(betweenFullClaims), {
            until: () => busy.size < concurrency || stopping
          })
          const rounds = Effect.gen(function* () {
            const { claimed, isFull, work } = yield* claimTargets(lane, busy)
            for (const [device_id, one] of work) {
              busy.add(device_id)
              yield* FiberSet.run(
                inFlight,
                Effect.ensuring(
                  one,
                  Effect.sync(() => busy.delete(device_id))
                )
              )
            }
            if (isFull) yield* placeFree
            return claimed
          })
          yield* untilStopped(lane, rounds)
          yield* FiberSet.awaitEmpty(inFlight)
        }).pipe(Effect.scoped)
      const roundsOf = (lane: Lane) =>
        isOfTargets(lane) ? targetRounds(lane) : Effect.scoped(untilStopped(lane, batchRound(lane)))
      // Each lane by itself: a provider that takes long to answer delays nobody else's notifications.
      const rounds = Effect.forEach(lanes, roundsOf, { concurrency: "unbounded", discard: true })
      const run = pauses.endAll.pipe(Effect.retry(Schedule.spaced("1 second")), Effect.orDie, Effect.andThen(rounds))

      const release = Effect.gen(function* () {
        if (open.size > 0) yield* leases.release([...open]).pipe(persistence)
      })

      const start = Effect.gen(function* () {
        yield* initializeSeries
        const fiber = yield* Effect.forkDetach(run)
        const stop = Effect.sync(() => {
          stopping = true
        }).pipe(Effect.andThen(outbox.wake), Effect.andThen(Effect.timeoutOption(Fiber.await(fiber), "5 seconds")))
        yield* Effect.addFinalizer(() =>
          stop.pipe(Effect.andThen(Fiber.interrupt(fiber)), Effect.andThen(Effect.ignore(release)))
        )
      })

      return { round, start }
    })
  )
}

/** Creates every series at zero, so that an alert sees the first increment. */
const initializeSeries = Effect.forEach(lanes, (environment) =>
  Effect.all([
    ...pushOutcomes.map((outcome) => count(pushed(environment, outcome), 0)),
    ...["configuration", "provider"].map((cause) => count(pushPauses(environment, cause), 0))
  ])
)
