/**
 * What a second replica adds (docs/scaling.md): bearer lookups and rotations on one replica, and on two that share a
 * database, alternating.
 *
 * Two replicas, PostgreSQL and the load generator can need more cores than the machine has; the rate would then say
 * nothing about the service. So each replica gets a quarter of a core: it is stopped for 30 ms of every 40. Contention
 * in the database still shows in the rate, and the cost of sharing in CPU time.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as harness from "./support/harness.ts"
import { figure, ratio, report, type Round } from "./support/report.ts"

const [running, period] = [10, 40]

/** Stops and continues the process until the scope closes. `after` keeps replicas out of step. */
const slowed = ({ pid }: harness.Target, after: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      let timer = setTimeout(function go() {
        process.kill(pid, "SIGCONT")
        timer = setTimeout(() => {
          process.kill(pid, "SIGSTOP")
          timer = setTimeout(go, period - running)
        }, running)
      }, after)
      return () => clearTimeout(timer)
    }),
    (end) =>
      Effect.sync(() => {
        end()
        process.kill(pid, "SIGCONT")
      })
  )

const combined = (rounds: ReadonlyArray<Required<Round>>): Round => {
  const count = rounds.reduce((sum, round) => sum + round.count, 0)
  const mean = (of: keyof Round) => rounds.reduce((sum, round) => sum + round[of] * round.count, 0) / count
  return {
    count,
    seconds: Math.max(...rounds.map(({ seconds }) => seconds)),
    per_second: rounds.reduce((sum, { per_second }) => sum + per_second, 0),
    p50_ms: mean("p50_ms"),
    p99_ms: Math.max(...rounds.map(({ p99_ms }) => p99_ms)),
    cpu_us: mean("cpu_us"),
    // Each generator divides PostgreSQL's whole CPU time by its own requests.
    database_cpu_us: mean("database_cpu_us") / rounds.length,
    rss_mib: Math.max(...rounds.map(({ rss_mib }) => rss_mib))
  }
}

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const [first, second] = [on, yield* on.replica]
  const seconds = Math.max(1, Math.floor((harness.seconds - 15) / (harness.rounds * 4)))

  const load = (operation: "self" | "rotate", targets: ReadonlyArray<harness.Target>, seconds: number) =>
    Effect.forEach(
      targets,
      Effect.fnUntraced(function* (at) {
        const { project_id, url: service } = on
        const first = yield* on.issue(harness.connections * 4)
        const asked = { operation, service, seconds, count: 1_000_000, project_id, first }
        return yield* harness.measure(on, at, asked)
      }),
      { concurrency: "unbounded" }
    ).pipe(Effect.map(combined))

  for (const operation of ["self", "rotate"] as const) yield* load(operation, [first, second], 3)
  yield* on.sql`analyze`
  yield* slowed(first, 0)
  yield* slowed(second, period / 2)
  const { rotateOne, rotateTwo, selfOne, selfTwo } = yield* harness.inTurns({
    selfOne: () => load("self", [first], seconds),
    selfTwo: () => load("self", [first, second], seconds),
    rotateOne: () => load("rotate", [first], seconds),
    rotateTwo: () => load("rotate", [first, second], seconds)
  })

  const aim = { least: 1.7 }
  report("replicas", [
    figure("tokens/self, one replica with a quarter of a core", selfOne),
    figure("tokens/self, two of them", selfTwo, { ratio: ratio("rate", selfTwo, selfOne, aim) }),
    figure("rotation, one replica with a quarter of a core", rotateOne),
    figure("rotation, two of them", rotateTwo, { ratio: ratio("rate", rotateTwo, rotateOne, aim) })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
