/**
 * `npm run demo`: everything that exists, played against a real server, as a transcript of requests and answers.
 * Without --base-url the server is its own, with a scratch database, and both end with the demo.
 *
 * A scene fails when the service does not answer as the protocol says, and so does the demo.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { parseArgs } from "node:util"
import { agents } from "./demo/agents.ts"
import { bridges } from "./demo/bridges.ts"
import { stage, type Stage } from "./demo/Stage.ts"

export interface Scene {
  readonly title: string
  readonly play: (stage: Stage) => Effect.Effect<unknown, { readonly _tag: string; readonly message: string }>
}

const scenes: ReadonlyArray<Scene> = [...bridges, ...agents]

const { values } = parseArgs({ options: { "base-url": { type: "string" } } })

Effect.gen(function* () {
  const on = yield* stage(values["base-url"])
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
