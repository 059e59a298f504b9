/**
 * `npm run demo`: everything that exists, played against a real server, as a transcript of requests and answers.
 * Without --base-url the server is its own, with a scratch database, and both end with the demo. With it the server is
 * one that runs; the operator's commands find its database by the same environment, and what was made stays there. Where
 * its notifications go is its own affair: phones play on the demo's server only.
 *
 * A scene fails when the service does not answer as the protocol says, and so does the demo.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { agents } from "./demo/agents.ts"
import { bridges } from "./demo/bridges.ts"
import { phones } from "./demo/phones.ts"
import { flags, type Scene, stage } from "./demo/Stage.ts"
import { apnsSimulator, settingsFor } from "../test/support/phones/ApnsSimulator.ts"

Effect.gen(function* () {
  const { "base-url": running } = yield* flags("base-url")
  const apns = yield* apnsSimulator()
  const on = yield* stage(running, (folder) => settingsFor(apns, folder))
  const scenes: ReadonlyArray<Scene> = [...bridges, ...agents, ...(running === undefined ? phones(apns) : [])]
  yield* Console.log(`Bridge Service at ${on.base_url}. Secrets are shown as their prefix and length.`)
  for (const [index, { play, title }] of scenes.entries()) {
    yield* Console.log(`\n${index + 1}. ${title}`)
    yield* play(on)
  }
  yield* Console.log(`\n${scenes.length} scenes, each as the protocol says.`)
}).pipe(
  Effect.scoped,
  Effect.tapError(({ message }) => Console.error(`\nThe demo failed: ${message}`)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
