/** `npm start`: runs the server until a signal ends it, or the parent of several processes that do. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { announceStopped } from "./platform/process/Banner.ts"
import { exitCode, explain } from "./platform/process/Exit.ts"
import { logging, logLevel } from "./platform/process/Logging.ts"
import { beforeFirstStart } from "./platform/process/FirstStart.ts"
import { handleSignals } from "./platform/process/Signals.ts"
import { processSetting, Settings } from "./platform/settings/Settings.ts"
import { followParent, workerNumber } from "./platform/workers/Workers.ts"

handleSignals()
followParent()

// The service keeps running if the log cannot be written, because the disk is full or the reader has gone.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})

const serve = Effect.gen(function* () {
  const [{ server }, { served }] = yield* Effect.promise(() =>
    Promise.all([import("./Server.ts"), import("../cli/support/remote/Served.ts")])
  )
  return yield* Layer.launch(server(served))
})

/** Loads nothing that only a worker needs. */
const supervise = Effect.gen(function* () {
  const { parent } = yield* Effect.promise(() => import("./platform/process/Parent.ts"))
  return yield* parent(import.meta.filename)
}).pipe(Effect.provide(Layer.provideMerge(announceStopped, Layer.provideMerge(logLevel, Settings.layer))))

const main = Effect.gen(function* () {
  if (workerNumber !== undefined) return yield* Effect.annotateLogs(serve, "worker", workerNumber)
  yield* beforeFirstStart
  return yield* (yield* processSetting) === 1 ? serve : supervise
})

main.pipe(explain, Effect.provide(logging), NodeRuntime.runMain({ disableErrorReporting: true, teardown: exitCode }))
