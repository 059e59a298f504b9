/**
 * Several processes on one port, with the embedded PostgreSQL: kills workers while Bridges rotate (parts/Rotations.ts says
 * what must hold), then replaces all workers again and again under load, then kills the parent.
 *
 * A replacement loses no request. No worker outlives the parent by more than its requests, and the next start has every
 * acknowledged write.
 */
import { Effect } from "effect"
import { isAlive, workersOf } from "../../../support/run/Proc.ts"
import { beside, chaos, draw, ledger, freePort, percentile, scratch, server, size, sliced, until } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"
import { rollover } from "../parts/Rollover.ts"
import { progress, rotateUnderKills } from "../parts/Rotations.ts"

const processes = 2
const replacements = size(5, 1)
/** Milliseconds that workers may outlive their parent: they finish their requests. */
const bound = sliced ? 60_000 : 15_000

const rollovers: Array<number> = []

chaos(
  "processes",
  () => ({ ...progress(), replacements: rollovers.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const port = yield* freePort
    const one = yield* server(folder, {
      SERVICE_PROCESSES: String(processes),
      SERVICE_METRICS_PORT: String(port),
      SERVICE_LOG_LEVEL: "Info"
    })
    const serving = Effect.promise(async () => {
      const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return Number(/^service_workers (\d+)$/m.exec(page)?.[1])
    })
    const workers = () => workersOf(one.pid())
    yield* until("all workers", () => one.output.some((line) => line.includes('"Ready"')))
    const { sql } = yield* beside(folder, one)

    const kill = Effect.gen(function* () {
      const from = performance.now()
      const victim = workers()[draw() < 0.5 ? 0 : 1]!
      process.kill(victim.pid, "SIGKILL")
      yield* until("the end of a worker", () => !isAlive(victim.pid))
      yield* Effect.repeat(serving, { until: (count) => count === processes })
      return Math.round(performance.now() - from)
    })
    const killed = yield* rotateUnderKills({ folder, base_url: one.url, sql, kill })

    const notes = yield* ledger(folder)
    const load = yield* makeLoad(yield* beside(folder, one), notes, { bridges: size(8, 3), agents: size(8, 3) })
    yield* load.during(
      Effect.gen(function* () {
        while (rollovers.length < replacements) rollovers.push(yield* rollover(one))
      })
    )
    const outcomes = load.outcomes()
    const violations = [...killed.violations]
    for (const outcome of ["no answer", "503 bridge_persistence_error"]) {
      if (outcome in outcomes) violations.push(`a replacement cost ${outcomes[outcome]} times ${outcome}`)
    }

    const [left, from] = [workers().map(({ pid }) => pid), performance.now()]
    yield* one.killAndRestart
    yield* until("the end of the workers", () => !left.some(isAlive))
    const gone = Math.round(performance.now() - from)
    if (gone > bound) violations.push(`the workers outlived their parent by ${gone} ms`)
    yield* load.settled(sql)

    return {
      figures: {
        ...killed.figures,
        replacements: rollovers.length,
        median_replacement_ms: percentile(rollovers, 0.5),
        requests_during_replacements: load.exchanges.length,
        outcomes,
        workers_outlived_parent_ms: gone
      },
      violations: [...violations, ...load.violations]
    }
  }),
  "2 minutes"
)
