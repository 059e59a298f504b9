/** A task whose answer is as large as an agent can make it. */
import { Effect } from "effect"
import type { Agent } from "./McpAgent.ts"

const filled = (bytes: number) => `${"\\".repeat(bytes - 1)}x`

/** Returns its id. Its text has two bytes a character in JSON, and four in JSON within JSON: reading it answers 0.5 MB. */
export const makeLargeTask = Effect.fnUntraced(function* (agent: Agent) {
  let { id, version } = yield* agent.task("large", { body: filled(16_384) })
  for (let n = 0; n < 5; n++) {
    const receipt = {
      session_ref: `s${n}`,
      worker: "w",
      outcome: "progress",
      summary: filled(4000),
      next_steps: Array.from({ length: 10 }, () => filled(500)),
      pitfalls: Array.from({ length: 10 }, () => filled(500))
    }
    const updated = yield* agent.update({ id, version }, { receipt })
    version = updated.output.task.version
  }
  return id as string
})
