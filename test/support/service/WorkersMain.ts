/**
 * Two workers of the real parent that only talk: the second one wakes the first one again and again, and prints what it gets
 * to hear from it and from all.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option } from "effect"
import { parent } from "../../../src/platform/process/Parent.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { followParent, workerNumber, Workers } from "../../../src/platform/workers/Workers.ts"

const worker = Effect.gen(function* () {
  followParent()
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

if (workerNumber === undefined) NodeRuntime.runMain(Effect.provide(parent(import.meta.filename), Settings.layer))
else NodeRuntime.runMain(Effect.provide(worker, Workers.layer))
