/** Explores every state of a Bridge's life (test/attacks/life) within bounds that take too long for `npm test`. */
import { Effect } from "effect"
import { explore } from "../../life/Explore.ts"
import { chaos, size } from "../harness.ts"

const small = { ids: 1, keys: 2, credentials: 1, processes: 2 }
const bounds =
  size(2, 1) === 1
    ? [small]
    : [
        { ...small, ids: 2 },
        { ...small, credentials: 2 }
      ]

let states = 0
let steps = 0

chaos(
  "life",
  () => ({ states, steps }),
  Effect.sync(() => {
    const violations: Array<string> = []
    for (const one of bounds) {
      const explored = explore(one)
      states += explored.states
      steps += explored.steps
      if (explored.violation !== undefined)
        violations.push(`${explored.violation.what}: ${explored.violation.trace.join(", ")}`)
    }
    return { figures: { states, steps }, violations }
  })
)
