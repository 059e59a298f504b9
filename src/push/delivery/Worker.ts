/**
 * Delivery (spec 1.4): takes notifications from the outbox and carries them to the provider, at least once each.
 *
 * 1. A claim leases a batch for thirty seconds, on any number of replicas at once.
 * 2. What its owner does not want any more, or not now, is suppressed or held.
 * 3. The rest is sent outside any transaction. Its id and collapse id are the same on every attempt, so that the phone
 *    shows a repeated one once.
 * 4. What came of it is written down under the lease. A process that dies in between leaves its rows to the next claim.
 */
import { Context, Duration, Effect, Exit, Fiber, Layer, Option, Schedule, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { uuid } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, pushed, pushOutcomes, pushPauses } from "../../platform/metrics/Metrics.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { after } from "../../wire/Instant.ts"
import { type Environment, environments } from "../../wire/mobile/Notifications.ts"
import type { Batch } from "./Batch.ts"
import { Outbox } from "../outbox/Outbox.ts"
import * as Pausing from "./pause.ts"
import * as Sending from "./send.ts"
import * as Store from "./DeliveryStore.ts"

/** Of one batch; each delivery has ten seconds, and the lease outlasts them. */
const concurrency = 50
const lease = Duration.seconds(30)

type Lost = SharedRefusal<"bridge_persistence_error">

export class Worker extends Context.Service<
  Worker,
  {
    /** One claim per environment, carried out; answers how many deliveries it took. */
    readonly round: Effect.Effect<number, Lost>
    /** Rounds in the background of the scope: at once while there is work, at a ring, else every second. */
    readonly start: Effect.Effect<void, never, Scope.Scope>
  }
>()("service/push/Worker") {
  static readonly layer = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const outbox = yield* Outbox
      const { admission, endAll, resume } = yield* Pausing.make
      const { judgeUnknown, send } = yield* Sending.make
      const store = Store.make(sql)
      const held = new Set<string>()

      const round = Effect.gen(function* () {
        const claimed = yield* Effect.forEach(environments, roundOf, { concurrency: "unbounded" })
        return claimed.reduce((sum, count) => sum + count, 0)
      })

      const roundOf = Effect.fn("Worker.round")(function* (environment: Environment) {
        const now = yield* clock.now
        const until = after(now, lease)
        const { limit, probing } = yield* admission(environment, now, until)
        if (limit === 0) return 0
        const batch: Batch = { environment, lease: { token: yield* uuid, until }, paused: false, unknown: [] }
        held.add(batch.lease.token)
        return yield* carry(batch, limit, probing, now).pipe(
          // Interrupted, it stays held: the finalizer gives it back.
          Effect.onExit((exit) => Effect.sync(() => Exit.hasInterrupts(exit) || held.delete(batch.lease.token)))
        )
      })

      const carry = Effect.fnUntraced(function* (batch: Batch, limit: number, probing: boolean, now: Date) {
        const claimed = yield* store.claim(batch.environment, limit, batch.lease, now).pipe(persistence)
        // A row whose result cannot be written stays leased: it comes again when the lease is over.
        const taken = yield* Effect.forEach(claimed, (row) => Effect.option(send(row, batch)), { concurrency })
        const ids = claimed.flatMap(({ delivery_id }, i) => (Option.contains(taken[i]!, true) ? [delivery_id] : []))
        if (ids.length > 0) yield* store.deliver(ids, batch.lease, yield* clock.now).pipe(persistence)
        yield* judgeUnknown(batch)
        if (probing && claimed.length > 0 && !batch.paused) yield* resume(batch.environment)
        return claimed.length
      })

      let stopping = false
      const idle = Effect.raceFirst(Effect.sleep("1 second"), outbox.rung)
      const rounds = round.pipe(
        Effect.catch(() => Effect.succeed(0)),
        Effect.catchDefect((defect) =>
          Effect.as(Effect.logError("Push delivery failed", defect instanceof Error ? defect.name : ""), 0)
        ),
        Effect.flatMap((claimed) => (claimed > 0 || stopping ? Effect.void : idle)),
        Effect.repeat({ until: () => stopping })
      )
      const run = endAll.pipe(Effect.retry(Schedule.spaced("1 second")), Effect.orDie, Effect.andThen(rounds))

      const release = Effect.gen(function* () {
        if (held.size > 0) yield* store.release([...held]).pipe(persistence)
      })

      /** In the background. At the end it has five seconds for what it is sending; the rest is given back. */
      const start = Effect.gen(function* () {
        yield* noneYet
        const fiber = yield* Effect.forkDetach(run)
        const stop = Effect.sync(() => {
          stopping = true
        }).pipe(Effect.andThen(outbox.ring), Effect.andThen(Effect.timeoutOption(Fiber.await(fiber), "5 seconds")))
        yield* Effect.addFinalizer(() =>
          stop.pipe(Effect.andThen(Fiber.interrupt(fiber)), Effect.andThen(Effect.ignore(release)))
        )
      })

      return { round, start }
    })
  )
}

/** Every series from the start, so that an alert sees its first step. */
const noneYet = Effect.forEach(environments, (environment) =>
  Effect.all([
    ...pushOutcomes.map((outcome) => count(pushed(environment, outcome), 0)),
    ...["configuration", "provider"].map((cause) => count(pushPauses(environment, cause), 0))
  ])
)
