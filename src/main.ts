/** `npm start`: runs the server until a signal ends it. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { served } from "../cli/support/remote/Served.ts"
import { server } from "./App.ts"
import { exitCode, explain } from "./platform/process/Exit.ts"
import { logging } from "./platform/process/Logging.ts"
import { handleSignals } from "./platform/process/Signals.ts"

handleSignals()

// The service keeps running if the log cannot be written, because the disk is full or the reader has gone.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})

Layer.launch(server(served)).pipe(
  explain,
  Effect.provide(logging),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown: exitCode })
)
