/**
 * Two workers of the real parent that only talk: each says whether it takes another's place, and how much heap it has. The
 * second one wakes the first one again and again, and prints what it gets to hear from it and from all. While the file
 * FAILING exists, a worker ends at its start with the code in it.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { exitCode } from "../../../../src/platform/process/Exit.ts"
import { logging } from "../../../../src/platform/process/Logging.ts"
import { parent } from "../../../../src/platform/process/Parent.ts"
import { oldGeneration } from "../../../../src/platform/settings/Heap.ts"
import { Settings } from "../../../../src/platform/settings/Settings.ts"
import { followParent, isReplacement, workerNumber, Workers } from "../../../../src/platform/workers/Workers.ts"

const failing = process.env["FAILING"] ?? ""

const worker = Effect.gen(function* () {
  if (existsSync(failing)) process.exit(Number(readFileSync(failing, "utf8")))
  followParent()
  process.stdout.write(`${isReplacement ? "replaces" : "begins"} ${process.pid} ${oldGeneration() / 2 ** 20} MiB\n`)
  const { answers, askAll, askFirst, isFirst, onWake, tell } = yield* Workers
  yield* onWake(() => process.stdout.write(`woken ${workerNumber} ${process.pid}\n`))
  yield* answers("samples", Effect.succeed(`samples of ${workerNumber}`))
  yield* answers("load", Effect.succeed(workerNumber))
  yield* tell("ready")
  if (isFirst) return yield* Effect.never
  const talk = Effect.gen(function* () {
    yield* tell("wake")
    yield* Console.log(Option.getOrElse(yield* askFirst("samples"), () => "no samples"))
    yield* Console.log(`load of ${(yield* askAll("load")).toSorted().join()}`)
    yield* Effect.sleep("100 millis")
  })
  return yield* Effect.forever(talk)
})

const serving = Effect.provide(parent(import.meta.filename), [Settings.layer, logging])
if (workerNumber === undefined) NodeRuntime.runMain(serving, { teardown: exitCode })
else NodeRuntime.runMain(Effect.provide(worker, Workers.layer))
