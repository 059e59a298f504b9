import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as harness from "/work/wt-bench/bench/harness.ts"
const main = Effect.gen(function* () {
  const on = yield* harness.start
  const op = process.env.OP as any
  const load = Effect.fnUntraced(function* (operation: any, seconds: number, count: number) {
    const first = yield* on.issue(20000)
    return yield* harness.measure(on, on, { operation, service: on.url, seconds, count, project_id: on.project_id, first })
  })
  const n = Number(process.env.N ?? 4000)
  yield* load(op, 60, n/2)
  yield* on.sql`analyze`
  for (let i = 0; i < Number(process.env.R ?? 3); i++) {
    const r = yield* load(op, 60, n)
    console.log(op, r.per_second.toFixed(0), "p50", r.p50_ms.toFixed(1), "cpu", r.cpu_us.toFixed(0), "db", r.database_cpu_us.toFixed(0), "rss", r.rss_mib.toFixed(0))
  }
})
NodeRuntime.runMain(Effect.scoped(main) as any)
