/**
 * PostgreSQL is restarted without a shutdown, loses a session to kill -9, and is stopped for three seconds, while Bridges
 * rotate and agents write.
 *
 * Nothing acknowledged is lost, the only error is 503 `bridge_persistence_error`, the service recovers within two seconds,
 * stays alive throughout, and no process exits.
 */
import { Effect } from "effect"
import { relay } from "../../../support/network/Relay.ts"
import { beside, chaos, draw, ledger, scratch, server, size, sliced } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"
import { ownPostgres } from "../parts/database/Postgres.ts"
import { watchHealth } from "../parts/Health.ts"

const rounds = size(2, 1)
const standstill = size(3000, 1000)
/** Milliseconds from the end of a fault to the last error that it caused. */
const bound = sliced ? Infinity : 2000

const faults: Array<{ readonly fault: string; readonly recovered_after_ms: number }> = []

chaos(
  "database-restart",
  () => ({ faults }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const postgres = yield* ownPostgres(folder)
    const settings = postgres.over(yield* relay(postgres.socket))
    const one = yield* server(folder, settings)
    const on = yield* beside(folder, one, postgres.over(yield* relay(postgres.socket)))
    const load = yield* makeLoad(on, yield* ledger(folder), { bridges: 8, agents: 8 })
    const health = yield* watchHealth(one)

    const troubles: Readonly<Record<string, Effect.Effect<void, { readonly _tag: string; readonly message: string }>>> =
      {
        restart: Effect.asVoid(postgres.restart),
        "a session killed": Effect.gen(function* () {
          const pids = yield* postgres.backends
          process.kill(pids[Math.floor(draw() * pids.length)]!, "SIGKILL")
          yield* Effect.sleep("100 millis")
          yield* postgres.answering
        }),
        standstill: Effect.gen(function* () {
          const pids = yield* postgres.backends
          for (const pid of pids) process.kill(pid, "SIGSTOP")
          yield* Effect.sleep(standstill)
          for (const pid of pids) process.kill(pid, "SIGCONT")
        })
      }
    yield* load.during(
      Effect.gen(function* () {
        yield* Effect.sleep("1 second")
        for (let round = 0; round < rounds; round++) {
          for (const [fault, trouble] of Object.entries(troubles)) {
            yield* trouble
            const over = performance.now()
            yield* Effect.sleep(size(2000, 500) + draw() * 500)
            const last = load.exchanges.findLast(({ at, outcome }) => at > over && !/^20\d$/.test(outcome))
            faults.push({
              fault,
              recovered_after_ms: last === undefined ? 0 : Math.round(last.at + last.millis - over)
            })
          }
        }
      })
    )
    yield* load.settled(postgres.sql)

    const violations = [...load.violations, ...health.violations()]
    const slow = faults.filter(({ recovered_after_ms }) => recovered_after_ms > bound)
    for (const { fault, recovered_after_ms } of slow)
      violations.push(`${fault}: errors for ${recovered_after_ms} ms after`)
    const outcomes = load.outcomes()
    if ((outcomes["no answer"] ?? 0) > 0) violations.push("a request had no answer")
    if ((outcomes["503 bridge_persistence_error"] ?? 0) === 0) violations.push("no fault made a request fail")

    return {
      figures: {
        ...load.counts(),
        outcomes,
        faults: faults.length,
        slowest_recovery_ms: Math.max(...faults.map(({ recovered_after_ms }) => recovered_after_ms)),
        ...health.figures()
      },
      violations
    }
  })
)
