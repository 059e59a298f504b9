/**
 * Admits tool calls and pages of the console within the limits of their project (decisions.md, Budgets of a project): how
 * many in a minute, and how many at once. A call waits up to a second for its turn. Bridges and phones are not counted.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { limitNames, maximumOf } from "../../../operator/limits/LimitNames.ts"
import { Database } from "../../../platform/database/Database.ts"
import { turnsBetween } from "../../../platform/edge/limits/inTurn.ts"
import { type Rate, RateLimit } from "../../../platform/edge/limits/RateLimit.ts"
import { count, limitRefusals } from "../../../platform/metrics/Metrics.ts"
import { partOf, Settings } from "../../../platform/settings/Settings.ts"
import type { Actor } from "../../../wire/Actor.ts"
import { FurtherWrites, limitInUse, slowedDown } from "../../continuity/Budget.ts"
import type { ContinuityRefusal } from "../../continuity/Errors.ts"
import * as Turns from "./Turns.ts"

/** Milliseconds. */
const longestWait = 1_000

/** A bucket of which one is full, and full again after a minute. */
const aMinute: Rate = { burst: 1, perSecond: 1 / 60 }

/** Less than 1, so that rounded shares never add up to more than the minute. */
const share = 1 - 1e-9

/** What a call costs besides its turn. */
export interface Kind {
  readonly searches: boolean
  readonly writes: boolean
}

/** What is needed of whoever calls. */
type Caller = Pick<Actor, "project_id" | "subject" | "limits">

type Exceeded = ContinuityRefusal<"limit_exceeded">

export class CallBudget extends Context.Service<
  CallBudget,
  {
    /** Runs the call in its turn, or refuses it without running it. */
    readonly admit: (
      caller: Caller,
      kind: Kind
    ) => <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.Effect<A, E | Exceeded, R>
    /** Runs the end of a call that has waited: it is not refused any more, and only its time counts. */
    readonly finish: (
      caller: Pick<Caller, "project_id">
    ) => <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("service/mcp/CallBudget") {
  static readonly layer = Layer.effect(
    CallBudget,
    Effect.gen(function* () {
      const { database, http, processes } = yield* Settings
      const { server } = yield* Database
      const turns = Turns.make({ measured: http.rateLimits, server })
      yield* Effect.forEach([...limitNames, "index_bytes", "answer_bytes", "waiters"], (name) =>
        count(limitRefusals(name), 0)
      )
      // The searches of all projects use at most half of the connections, and projects that wait take turns.
      const connections = yield* turnsBetween(Math.max(1, database.poolSize >> 1))

      // A bucket holds one minute, of which a call takes the share that its project's limit gives it.
      const minutes = (yield* RateLimit).buckets(aMinute)

      /** Callers that share the project's limits have half of its minute each. */
      const inMinute = Effect.fnUntraced(function* (
        { limits, project_id, subject }: Caller,
        limit: "searches_per_minute" | "writes_per_minute",
        visit: Turns.Visit
      ) {
        const maximum = maximumOf(limits, limit)
        const ownMaximum = Turns.half(maximum)
        const own = yield* minutes.take(`${limit} ${project_id} ${subject}`, share / ownMaximum)
        if (visit.isShared && own > 0) return yield* limitInUse(limit, ownMaximum, own)
        const seconds = yield* minutes.take(`${limit} ${project_id}`, share / maximum)
        if (seconds === 0) return
        if (own === 0) yield* turns.share(visit)
        return yield* limitInUse(limit, maximum, seconds)
      })

      const furtherWrites =
        ({ limits, project_id, subject }: Caller) =>
        (writes: number) => {
          const maximum = maximumOf(limits, "writes_per_minute")
          return Effect.andThen(
            minutes.charge(`writes_per_minute ${project_id} ${subject}`, (share * writes) / Turns.half(maximum)),
            minutes.charge(`writes_per_minute ${project_id}`, (share * writes) / maximum)
          )
        }

      const admit =
        (caller: Caller, { searches, writes }: Kind) =>
        <A, E, R>(call: Effect.Effect<A, E, R>) =>
          Effect.gen(function* () {
            const counted = writes ? Effect.provideService(call, FurtherWrites, furtherWrites(caller)) : call
            const until = (yield* Clock.currentTimeMillis) + longestWait
            const { limits: own, project_id, subject } = caller
            const maxima = {
              calls: partOf(maximumOf(own, "concurrent_calls"), processes),
              searches: partOf(maximumOf(own, "concurrent_searches"), processes)
            }
            const noTurn = ({ restsUntil }: Turns.Project) =>
              Effect.flatMap(Clock.currentTimeMillis, (now) =>
                restsUntil === 0
                  ? limitInUse("concurrent_calls", maxima.calls, 1)
                  : slowedDown(Math.max(1, Math.ceil((restsUntil - now) / 1000)))
              )
            const noSearch = Effect.suspend(() => limitInUse("concurrent_searches", maxima.searches, 1))
            return yield* turns.visit(project_id, subject, maxima, (visit) => {
              const oneOf = turns.callsOf(visit, maxima, until)
              const connected = connections(project_id, longestWait)
              const turn = searches
                ? turns.searchesOf(visit, until)(oneOf(connected(counted, noSearch), noTurn(visit.project)), noSearch)
                : oneOf(counted, noTurn(visit.project))
              return Effect.all([
                writes ? inMinute(caller, "writes_per_minute", visit) : Effect.void,
                searches ? inMinute(caller, "searches_per_minute", visit) : Effect.void
              ]).pipe(Effect.andThen(turn))
            })
          })

      return { admit, finish: ({ project_id }) => turns.withoutTurn(project_id) }
    })
  )
}
