/**
 * Startup times: from `npm start` on an existing data folder to the first 200 of /readyz, and of `service-admin --help` as
 * bundled by `npm ci`, measured alternately with an empty Node program.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { dataFolder, end } from "../test/support/database/PostgresUser.ts"
import * as harness from "./support/harness.ts"
import { figure, report, type Round } from "./support/report.ts"

const times = 10

const round = (millis: ReadonlyArray<number>): Round => {
  const sorted = millis.toSorted((a, b) => a - b)
  const quantile = (q: number) => sorted[Math.floor(sorted.length * q)]!
  const [count, seconds] = [millis.length, millis.reduce((sum, next) => sum + next, 0) / 1000]
  return { count, seconds, per_second: count / seconds, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
}

/** A figure whose aim is a p50 of at most `most` milliseconds. */
const withAim = (name: string, measured: Round, most: number) =>
  figure(name, [measured], { note: `≤ ${most} ms: ${measured.p50_ms <= most ? "met" : "missed"}` })

const ready = Effect.fnUntraced(function* (data: string) {
  const port = yield* harness.freePort
  const startedAt = performance.now()
  const environment = { SERVICE_DATA_DIR: data, SERVICE_PORT: String(port) }
  const child = yield* harness.started(["src/main.ts"], environment)
  yield* harness.answers(`http://127.0.0.1:${port}/readyz`)
  const millis = performance.now() - startedAt
  yield* end(child, "SIGTERM")
  return millis
}, Effect.scoped)

const command = (...args: ReadonlyArray<string>) =>
  Effect.sync(() => {
    const startedAt = performance.now()
    spawnSync(process.execPath, args)
    return performance.now() - startedAt
  })

const main = Effect.gen(function* () {
  const data = yield* dataFolder()
  const first = yield* ready(data)
  const starts = yield* Effect.replicateEffect(ready(data), times)
  const runs = yield* Effect.replicateEffect(
    Effect.all([command("dist/service-admin.mjs", "--help"), command("--eval", "0")]),
    times
  )
  report("startup", [
    figure("the first start, which creates the database", [round([first])]),
    withAim("a start, until /readyz answers 200", round(starts), 1500),
    withAim("service-admin --help, bundled", round(runs.map(([help]) => help)), 100),
    figure("node --eval 0", [round(runs.map(([, empty]) => empty))])
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
