/** A program that opens the state folder of its argument, prints `open`, and keeps the lock until it is killed. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer } from "effect"
import { Journal } from "../../../src/client/bridge/Journal.ts"

Layer.build(Journal.layer(process.argv[2]!)).pipe(
  Effect.andThen(Console.log("open")),
  Effect.andThen(Effect.never),
  Effect.scoped,
  NodeRuntime.runMain
)
