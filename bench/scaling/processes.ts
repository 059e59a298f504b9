/**
 * What SERVICE_PROCESSES=4 adds (docs/scaling.md): bearer lookups and rotations, measured alternately with one process and
 * with four behind one port, on the same database. Each process has 16 clients: with fewer of them it would share fewer
 * statements, and a request would cost more.
 *
 * Four processes, PostgreSQL and the load generator need more cores than this machine may have. So each process gets an
 * eighth of a core, by a quota. The parent has none; its CPU time is in that of the four.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { workersOf } from "../../test/support/run/Proc.ts"
import * as harness from "../support/harness.ts"
import { figure, ratio, report } from "../support/report.ts"
import { throttled } from "../support/throttle.ts"

const share = 1 / 8

const main = Effect.gen(function* () {
  const one = yield* harness.start
  const four = yield* one.replica({ SERVICE_PROCESSES: "4" })
  const workers = yield* Effect.sync(() => workersOf(four.pid)).pipe(
    Effect.repeat({ until: ({ length }) => length === 4 })
  )
  const seconds = Math.max(1, Math.floor((harness.seconds - 115) / (harness.rounds * 4)))

  const load = Effect.fnUntraced(function* (operation: "self" | "rotate", target: harness.Target, seconds: number) {
    const { project_id, url: service } = one
    const connections = harness.connections * (target === one ? 1 : 4)
    const first = yield* one.issue(connections * 4)
    const asked = { operation, service, seconds, count: 1_000_000, project_id, first, connections }
    return yield* harness.measure(one, target, asked)
  })

  // Until each process has compiled what it runs often: the clients of the four are served by each of them for a part.
  for (const operation of ["self", "rotate"] as const) {
    yield* load(operation, one, 10)
    yield* load(operation, four, 40)
  }
  yield* one.sql`analyze`
  yield* throttled(one.pid, share)
  for (const { pid } of workers) yield* throttled(pid, share)
  const { rotateFour, rotateOne, selfFour, selfOne } = yield* harness.inTurns({
    selfOne: () => load("self", one, seconds),
    selfFour: () => load("self", four, seconds),
    rotateOne: () => load("rotate", one, seconds),
    rotateFour: () => load("rotate", four, seconds)
  })

  const aim = { least: 3 }
  report("processes", [
    figure("tokens/self, one process with an eighth of a core", selfOne),
    figure("tokens/self, four such processes on one port", selfFour, { ratio: ratio("rate", selfFour, selfOne, aim) }),
    figure("rotation, one process with an eighth of a core", rotateOne),
    figure("rotation, four such processes on one port", rotateFour, {
      ratio: ratio("rate", rotateFour, rotateOne, aim)
    })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
