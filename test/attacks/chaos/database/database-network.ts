/**
 * The connection to PostgreSQL is slow, breaks just after a COMMIT was sent or executed, and goes silent, while Bridges
 * rotate and agents write.
 *
 * Nothing acknowledged is lost and the only error is 503 `bridge_persistence_error`. The retry resolves
 * every unknown outcome: each mutation happened once.
 */
import { Effect } from "effect"
import { relay } from "../../../support/network/Relay.ts"
import { beside, chaos, ledger, scratch, server, size, sliced } from "../harness.ts"
import { watchHealth } from "../parts/Health.ts"
import { makeLoad } from "../parts/Load.ts"
import { ownPostgres } from "../parts/database/Postgres.ts"
import { commits } from "../parts/database/Statements.ts"

/** A request times out after five seconds, its connection after five more. */
const deadline = sliced ? Infinity : 11_000

chaos(
  "database-network",
  () => ({}),
  Effect.gen(function* () {
    const folder = yield* scratch
    const postgres = yield* ownPostgres(folder)
    const line = yield* relay(postgres.socket, commits)
    const one = yield* server(folder, postgres.over(line))
    const on = yield* beside(folder, one, postgres.over(yield* relay(postgres.socket)))
    const load = yield* makeLoad(on, yield* ledger(folder), { bridges: 8, agents: 8 })
    const health = yield* watchHealth(one)
    const violations: Array<string> = []
    const { exchanges } = load

    const since = (from: number, good: boolean) =>
      exchanges.filter(({ at, outcome }) => at >= from && /^20\d$/.test(outcome) === good).length
    const until = (enough: () => boolean, else_: string) =>
      Effect.sleep("20 millis").pipe(
        Effect.repeat({ until: enough }),
        Effect.timeoutOrElse({ duration: "20 seconds", orElse: () => Effect.sync(() => void violations.push(else_)) })
      )

    /** Applies the fault, repairs the line, and reports how long errors went on afterwards. */
    const phase = Effect.fnUntraced(function* (
      fault: string,
      how: Effect.Effect<void>,
      isOver: Effect.Effect<unknown>
    ) {
      const from = performance.now()
      yield* how
      yield* isOver
      yield* line.heal
      const over = performance.now()
      yield* until(() => since(over, true) >= 50, `${fault}: requests do not succeed after the line was repaired`)
      const last = exchanges.findLast(({ at, millis, outcome }) => at + millis > over && !/^20\d$/.test(outcome))
      return {
        [fault]: { felt: since(from, false), over_after_ms: last ? Math.round(last.at + last.millis - over) : 0 }
      }
    })
    const felt = (fault: string) =>
      Effect.suspend(() => {
        const from = performance.now()
        return until(() => since(from, false) >= size(40, 5), `${fault}: no request failed`)
      })

    const before = line.lost()
    const faults = yield* load.during(
      Effect.gen(function* () {
        yield* until(() => exchanges.length > 50, "no requests before the first fault")
        return {
          ...(yield* phase("slow", line.delay(100), Effect.sleep(size(4000, 500)))),
          ...(yield* phase("cut after sending", line.endAfter("sent"), felt("cut after sending"))),
          ...(yield* phase("cut after the answer", line.endAfter("answered"), felt("cut after the answer"))),
          // A request without an answer times out after ten seconds: too long for a slice.
          ...(sliced ? {} : yield* phase("swallowed", line.blackhole, Effect.sleep("7 seconds")))
        }
      })
    )
    yield* load.settled(postgres.sql)

    const slowest = Math.round(Math.max(...exchanges.map(({ millis }) => millis)))
    if (slowest > deadline) violations.push(`an answer took ${slowest} ms`)
    if ((load.outcomes()["no answer"] ?? 0) > 0) violations.push("a request had no answer")
    return {
      figures: {
        ...load.counts(),
        outcomes: load.outcomes(),
        faults,
        commits_answered_to_nobody: line.lost() - before,
        slowest_answer_ms: slowest,
        ...health.figures()
      },
      violations: [...violations, ...load.violations, ...health.violations()]
    }
  })
)
