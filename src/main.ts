/** `npm start`: the server until a signal ends it. Exit codes: 0 stopped, 1 failure, 78 configuration. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { server } from "./App.ts"
import { exitCode } from "./Exit.ts"
import { logging } from "./Logging.ts"

Layer.launch(server).pipe(
  Effect.provide(logging),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown: exitCode })
)
