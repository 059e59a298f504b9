/**
 * `npm run demo`: plays every feature against a real server and prints a transcript of requests and responses.
 *
 * Without --base-url it starts a server with a scratch database and removes both at the end. With --base-url it uses a
 * running server; the operator's commands find that server's database through the same environment, and everything that
 * the demo creates stays there. The scenes with phones need the demo's own server, which sends to a simulated APNs.
 *
 * The demo fails if the service does not answer as the protocol requires.
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
  yield* Console.log(`Bridge Service at ${on.base_url}. Secrets are printed as prefix and length only.`)
  for (const [index, { play, title }] of scenes.entries()) {
    yield* Console.log(`\n${index + 1}. ${title}`)
    yield* play(on)
  }
  yield* Console.log(`\n${scenes.length} scenes passed: every response was as the protocol requires.`)
}).pipe(
  Effect.scoped,
  Effect.tapError(({ message }) => Console.error(`\nThe demo failed: ${message}`)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
