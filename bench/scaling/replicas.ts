/**
 * What a second replica adds (docs/scaling.md): bearer lookups and rotations, measured alternately with one replica and
 * with two on the same database.
 *
 * Two replicas, PostgreSQL and the load generator may need more cores than this machine has; the rate would then say
 * nothing about the service. So each replica gets a quarter of a core, by a quota. Contention in the database still shows
 * in the rate, and the cost of sharing in CPU time.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as harness from "../support/harness.ts"
import { figure, ratio, report, type Round } from "../support/report.ts"
import { throttled } from "../support/throttle.ts"

/** The rounds of several targets that ran at the same time, as one. */
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
    // Each round divided PostgreSQL's whole CPU time by its own count, so the mean is too high by the number of rounds.
    database_cpu_us: mean("database_cpu_us") / rounds.length,
    rss_mib: Math.max(...rounds.map(({ rss_mib }) => rss_mib))
  }
}

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const [first, second] = [on, yield* on.replica()]
  const seconds = Math.max(1, Math.floor((harness.seconds - 15) / (harness.rounds * 4)))

  const load = (operation: "self" | "rotate", targets: ReadonlyArray<harness.Target>, seconds: number) =>
    Effect.forEach(
      targets,
      Effect.fnUntraced(function* (target) {
        const { project_id, url: service } = on
        const first = yield* on.issue(harness.connections * 4)
        const options = { operation, service, seconds, count: 1_000_000, project_id, first }
        return yield* harness.measure(on, target, options)
      }),
      { concurrency: "unbounded" }
    ).pipe(Effect.map(combined))

  for (const operation of ["self", "rotate"] as const) yield* load(operation, [first, second], 3)
  yield* on.sql`analyze`
  yield* throttled(first.pid, 1 / 4)
  yield* throttled(second.pid, 1 / 4)
  const { rotateOne, rotateTwo, selfOne, selfTwo } = yield* harness.inTurns({
    selfOne: () => load("self", [first], seconds),
    selfTwo: () => load("self", [first, second], seconds),
    rotateOne: () => load("rotate", [first], seconds),
    rotateTwo: () => load("rotate", [first, second], seconds)
  })

  const aim = { least: 1.7 }
  report("replicas", [
    figure("tokens/self, one replica with a quarter of a core", selfOne),
    figure("tokens/self, two such replicas", selfTwo, { ratio: ratio("rate", selfTwo, selfOne, aim) }),
    figure("rotation, one replica with a quarter of a core", rotateOne),
    figure("rotation, two such replicas", rotateTwo, { ratio: ratio("rate", rotateTwo, rotateOne, aim) })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
