/**
 * Delivery (spec 1.4): takes notifications from the outbox and carries them to the provider, at least once each.
 *
 * 1. A claim leases a batch for thirty seconds, on any number of replicas at once.
 * 2. What its owner does not want any more, or not now, is suppressed or held.
 * 3. The rest is sent outside any transaction. Its id and collapse id are the same on every attempt, so that the phone
 *    shows a repeated one once.
 * 4. What came of it is written down under the lease. A process that dies in between leaves its rows to the next claim.
 *
 * A provider that fails is left alone for a while, by everybody, and tried again with one delivery.
 */
import { Context, Duration, Effect, Exit, Fiber, Layer, Option, Random, Schedule, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../audit/Audit.ts"
import { uuid } from "../crypto/Random.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence } from "../database/Persistence.ts"
import type { SharedRefusal } from "../wire/Errors.ts"
import { after, hasPassed } from "../wire/Instant.ts"
import { type Environment, environments, kinds, rank } from "../wire/Notifications.ts"
import { PushKeys } from "./Keys.ts"
import { Outbox } from "./Outbox.ts"
import { type Backoff, doubling, outcomeOf, type Response, untilMended } from "./Outcome.ts"
import { payload } from "./Payload.ts"
import { PushProvider } from "./Provider.ts"
import * as Store from "./Store.ts"
import { verdictOf } from "./Verdict.ts"

/** Of one claim; each has ten seconds, `concurrency` at a time, which the lease outlasts. */
const batch = 100
const concurrency = 50
const lease = Duration.seconds(30)
const mostAttempts = 8
/** Only configuration or the operator can mend it: said where people look. */
const alarm = "Push delivery needs its operator"

type Lost = SharedRefusal<"bridge_persistence_error">

interface Batch {
  readonly environment: Environment
  readonly lease: Store.Lease
  /** Set as soon as one delivery shows that the others need not be tried. */
  paused: boolean
  /** Deliveries whose token the provider does not know: judged together, at the end. */
  readonly unknown: Array<readonly [Store.Claimed, Store.Said]>
}

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
      const keys = yield* PushKeys
      const outbox = yield* Outbox
      const provider = yield* PushProvider
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
        const work: Batch = { environment, lease: { token: yield* uuid, until }, paused: false, unknown: [] }
        held.add(work.lease.token)
        return yield* batchOf(work, limit, probing, now).pipe(
          // Interrupted, it stays held: the finalizer gives it back.
          Effect.onExit((exit) => Effect.sync(() => Exit.hasInterrupts(exit) || held.delete(work.lease.token)))
        )
      })

      const batchOf = Effect.fnUntraced(function* (work: Batch, limit: number, probing: boolean, now: Date) {
        const claimed = yield* store.claim(work.environment, limit, work.lease, now).pipe(persistence)
        // A row whose result cannot be written stays leased: it comes again when the lease is over.
        const delivered = yield* Effect.forEach(claimed, (row) => Effect.option(carry(row, work)), { concurrency })
        const ids = claimed.flatMap(({ delivery_id }, i) => (Option.contains(delivered[i]!, true) ? [delivery_id] : []))
        if (ids.length > 0) yield* store.deliver(ids, work.lease, yield* clock.now).pipe(persistence)
        if (work.unknown.length > 0) yield* judgeUnknown(work)
        if (probing && claimed.length > 0 && !work.paused) yield* resume(work.environment)
        return claimed.length
      })

      /** How many may be claimed: all, none during a pause, one after it. */
      const admission = Effect.fnUntraced(function* (environment: Environment, now: Date, until: Date) {
        const found = yield* store.findPause(environment)
        if (Option.isNone(found) || found.value.paused_until === null) return { limit: batch, probing: false }
        if (!hasPassed(found.value.paused_until, now)) return { limit: 0, probing: false }
        return { limit: Option.isSome(yield* store.takeProbe(environment, now, until)) ? 1 : 0, probing: true }
      }, persistence)

      const resume = Effect.fnUntraced(function* (environment: Environment) {
        if ((yield* store.resume(environment)).length > 0) {
          yield* Effect.logInfo("Push delivery goes on").pipe(Effect.annotateLogs({ environment }))
        }
      }, persistence)

      /** One delivery; true if the provider took it: those are written down together. */
      const carry = Effect.fnUntraced(function* (row: Store.Claimed, work: Batch) {
        const token = yield* cleared(row, work)
        if (Option.isNone(token)) return false
        const response = yield* provider.send({
          delivery_id: row.delivery_id,
          environment: work.environment,
          topic: row.topic,
          token: token.value,
          payload: payload(row, keys.alias(row.project_id).slice(0, 16)),
          collapse_id: keys.alias(row.collapse_key),
          immediate: rank(kinds[row.kind].priority) >= rank("high"),
          expires_at: row.expires_at
        })
        return yield* carryOut(row, response, work)
      })

      /** The token of a delivery that may ring now; else it is suppressed or put back. */
      const cleared = Effect.fnUntraced(function* (row: Store.Claimed, work: Batch) {
        const now = yield* clock.now
        const putBack = (until: Date, reason: string) =>
          store.postpone(row.delivery_id, until, "does not count", { status: null, reason }, work.lease, now)
        const verdict = verdictOf(row, now)
        if (work.paused) yield* putBack(now, "paused")
        else if (verdict._tag === "Hold") yield* putBack(verdict.until, verdict.reason)
        else if (verdict._tag === "Suppress") {
          yield* store.end(row.delivery_id, "suppressed", { status: null, reason: verdict.reason }, work.lease, now)
        } else {
          const sealed = { token_key_id: row.token_key_id!, token_sealed: row.token_sealed! }
          const token = keys.open(sealed, row.device_id)
          if (Option.isNone(token)) yield* unreadable(row, work)
          return token
        }
        return Option.none()
      }, persistence)

      const carryOut = Effect.fnUntraced(function* (row: Store.Claimed, response: Response, work: Batch) {
        const outcome = outcomeOf(response)
        const said = { status: response.status ?? null, reason: response.reason ?? null }
        switch (outcome._tag) {
          case "Delivered":
            return true
          case "Gone": {
            // A token that was registered since then is tried once more before it is believed to be gone.
            const since = row.attempts > 1 ? null : (outcome.since ?? null)
            if (!(yield* deactivate(row, since, said, work))) yield* retry(row, quickly, said, work)
            break
          }
          case "BadToken":
            work.unknown.push([row, said])
            break
          case "Retry": {
            const until = yield* retry(row, outcome.backoff, said, work)
            if (outcome.device) yield* store.rest(row.device_id, until)
            break
          }
          case "Unprocessed":
            yield* retry(row, quickly, said, work)
            break
          case "Pause":
            yield* pause(row, outcome.backoff, said, work, outcome.fault)
            break
          case "RenewProviderToken":
            // The provider was shown a new one already: a clock is wrong.
            yield* pause(row, untilMended, said, work, true)
            break
          case "Dead":
            yield* Effect.logError("The provider refuses a notification as malformed").pipe(Effect.annotateLogs(said))
            yield* store.end(row.delivery_id, "dead", said, work.lease, yield* clock.now)
            break
        }
        return false
      }, persistence)

      /** Full jitter, so that what failed together does not come back together. */
      const retry = Effect.fnUntraced(function* (
        { attempts, delivery_id }: Store.Claimed,
        { atLeast, base, most }: Backoff,
        said: Store.Said,
        work: Batch
      ) {
        const now = yield* clock.now
        const ceiling = Math.min(Duration.toMillis(most), Duration.toMillis(base) * 2 ** (attempts - 1))
        const until = after(now, Duration.sum(atLeast, Duration.millis(Math.ceil((yield* Random.next) * ceiling))))
        if (attempts < mostAttempts) yield* store.postpone(delivery_id, until, "counts", said, work.lease, now)
        else yield* store.end(delivery_id, "dead", said, work.lease, now)
        return until
      })

      const pause = Effect.fnUntraced(function* (
        { delivery_id }: Store.Claimed,
        backoff: Backoff,
        said: Store.Said,
        work: Batch,
        fault: boolean
      ) {
        const now = yield* clock.now
        // The first of the batch to say so; the others in flight say the same of the same moment.
        const first = !work.paused
        work.paused = true
        const paused = first
          ? yield* store.pause(work.environment, backoff, said.reason ?? "", now, work.lease.until)
          : Option.none()
        // It may be this one that is wrong: the first probe after the pause asks with another.
        const until = fault && Option.isSome(paused) ? after(paused.value.paused_until, behind) : now
        yield* store.postpone(delivery_id, until, "does not count", said, work.lease, now)
        if (Option.isNone(paused)) return
        const facts = { environment: work.environment, ...said, until: paused.value.paused_until.toISOString() }
        yield* (fault ? Effect.logError(alarm) : Effect.logWarning("Push delivery pauses")).pipe(
          Effect.annotateLogs(facts)
        )
      })

      const deactivate = Effect.fnUntraced(function* (
        row: Store.Claimed,
        since: Date | null,
        said: Store.Said,
        work: Batch
      ) {
        const now = yield* clock.now
        return Option.isSome(yield* store.deactivate(row, since, said, work.lease, now, yield* traceAt(now)))
      })

      /** One unknown token is a phone without the app. Many at once are the wrong environment: then nobody is touched. */
      const judgeUnknown = Effect.fnUntraced(function* (work: Batch) {
        const counted = yield* store.countBadTokens(work.environment)
        const before = Option.getOrElse(counted, () => ({ bad: 0, devices: 0 }))
        const now = new Set(work.unknown.map(([{ device_id }]) => device_id)).size
        const bad = before.bad + now
        const many = bad >= 5 && bad * 5 > before.devices + now
        for (const [row, said] of work.unknown) {
          if (many) yield* pause(row, untilMended, said, work, true)
          else if (!(yield* deactivate(row, null, said, work))) yield* retry(row, quickly, said, work)
        }
      }, persistence)

      /** The device keeps its token: a key that comes back makes it readable again. */
      const unreadable = Effect.fnUntraced(function* (row: Store.Claimed, work: Batch) {
        if (!keys.knows(row.token_key_id!)) {
          const said = { status: null, reason: "token_key_unknown" }
          return yield* pause(row, untilMended, said, work, true)
        }
        yield* Effect.logError(alarm).pipe(
          Effect.annotateLogs({ reason: "token_unreadable", device_id: row.device_id })
        )
        yield* retry(row, slowly, { status: null, reason: "token_unreadable" }, work)
      })

      const idle = Effect.raceFirst(Effect.sleep("1 second"), outbox.rung)
      let stopping = false

      const run = Effect.gen(function* () {
        const now = yield* clock.now
        yield* store.endPauses(now).pipe(persistence)
      }).pipe(
        Effect.retry(Schedule.spaced("1 second")),
        Effect.orDie,
        Effect.andThen(
          round.pipe(
            Effect.catch(() => Effect.succeed(0)),
            Effect.catchDefect((defect) =>
              Effect.as(Effect.logError("Push delivery failed", defect instanceof Error ? defect.name : ""), 0)
            ),
            Effect.flatMap((claimed) => (claimed > 0 || stopping ? Effect.void : idle)),
            Effect.repeat({ until: () => stopping })
          )
        )
      )

      const release = Effect.gen(function* () {
        if (held.size > 0) yield* store.release([...held]).pipe(persistence)
      })

      /** In the background. At the end it has five seconds for what it is sending; the rest is given back. */
      const start = Effect.gen(function* () {
        const fiber = yield* Effect.forkDetach(run)
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            stopping = true
          }).pipe(
            Effect.andThen(outbox.ring),
            Effect.andThen(Effect.timeoutOption(Fiber.await(fiber), "5 seconds")),
            Effect.andThen(Fiber.interrupt(fiber)),
            Effect.andThen(Effect.ignore(release))
          )
        )
      })

      return { round, start }
    })
  )
}

const quickly = doubling("5 seconds")
const slowly = doubling("1 minute")
const behind = Duration.seconds(30)
