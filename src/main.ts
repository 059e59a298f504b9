/** `npm start`: the server until a signal ends it. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { server } from "./App.ts"
import { exitCode, explain } from "./Exit.ts"
import { logging } from "./Logging.ts"

Layer.launch(server).pipe(
  explain,
  Effect.provide(logging),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown: exitCode })
)
