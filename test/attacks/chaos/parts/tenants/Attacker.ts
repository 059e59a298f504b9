/** The hostile project: its rows, its tokens, and a process of its own with its clients. */
import { type Context, Effect } from "effect"
import { fork } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import type { Database } from "../../../../../src/platform/database/Database.ts"
import { makeClient } from "../../../../support/agents/Agent.ts"
import { Agent, issueToken } from "../../../../support/agents/McpAgent.ts"
import type { On } from "../Load.ts"
import type { Given } from "./Hostile.ts"
import type { Order, Report } from "./HostileMain.ts"
import { dense, fillHostile } from "./Projects.ts"

type Target = On & Parameters<typeof makeClient>[0] & { readonly services: Context.Context<Database> }

/** `pause`: milliseconds that each client rests between its requests; by default none. */
export const makeAttacker = Effect.fnUntraced(function* (
  target: Target,
  size: { readonly entries: number; readonly tasks: number; readonly proxy: string; readonly pause?: number }
) {
  const { pause = 0, proxy, tasks } = size
  const { project_id, token, write_context } = yield* Agent.make(target)
  yield* fillHostile(target.services, project_id, size)
  const others = yield* Effect.forEach(Array.from({ length: 19 }), () => issueToken(target, project_id))
  const client_id = yield* makeClient(target)
  const given: Given = {
    url: target.url,
    proxy,
    tokens: [token, ...others],
    write_context,
    client_id,
    dense,
    tasks,
    pause
  }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => fork(join(import.meta.dirname, "HostileMain.ts"), [JSON.stringify(given)])),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const order = (order: Order) => Effect.sync(() => child.send(order))
  const reported = Effect.promise(async () => (await once(child, "message"))[0] as Report)
  return {
    project_id,
    tokens: given.tokens,
    play: (names: ReadonlyArray<string>) => order({ play: names }),
    rest: Effect.andThen(order({}), reported)
  }
})
