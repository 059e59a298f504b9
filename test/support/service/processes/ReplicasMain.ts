/**
 * What Replicas.ts starts: the parent as it always is, with workers on the database of a test. A worker takes the time from
 * its requests and, like an instance in a test, does nothing in the background.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Clock, Effect, Layer } from "effect"
import cluster from "node:cluster"
import { subscribe } from "node:diagnostics_channel"
import type { IncomingMessage } from "node:http"
import { logging, logLevel } from "../../../../src/platform/process/Logging.ts"
import { parent } from "../../../../src/platform/process/Parent.ts"
import { Settings } from "../../../../src/platform/settings/Settings.ts"
import { followParent, Workers } from "../../../../src/platform/workers/Workers.ts"
import { timeHeader } from "../../network/Http.ts"
import { faultyDatabase } from "../Faults.ts"
import { over } from "../Service.ts"

let millis = 0
const follow = (message: unknown) => {
  const { headers } = (message as { readonly request: IncomingMessage }).request
  millis = Math.max(millis, Number(headers[timeHeader] ?? 0))
}

/** Decides what has expired. Whatever waits takes its real time. */
const clockOf = (real: Clock.Clock): Clock.Clock => {
  const nanos = () => BigInt(millis) * 1_000_000n
  return {
    currentTimeMillisUnsafe: () => millis,
    currentTimeMillis: Effect.sync(() => millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: real.monotonicTimeNanos,
    sleep: (duration) => real.sleep(duration)
  }
}

const worker = Effect.suspend(() => {
  followParent()
  subscribe("http.server.request.start", follow)
  const { TEST_DATABASE: address, ...settings } = process.env as Record<string, string>
  const { layer } = faultyDatabase(undefined, (error) => process.stdout.write(`PostgreSQL: ${error}\n`))
  const ready = Layer.effectDiscard(Effect.flatMap(Workers, ({ tell }) => tell("ready")))
  return Layer.launch(Layer.provideMerge(ready, over(JSON.parse(address!), settings, layer)))
}).pipe(Effect.updateService(Clock.Clock, clockOf))

const first = parent(import.meta.filename).pipe(Effect.provide(Layer.provideMerge(logLevel, Settings.layer)))

if (cluster.isWorker) NodeRuntime.runMain(Effect.provide(worker, logging))
else NodeRuntime.runMain(Effect.provide(first, logging))
