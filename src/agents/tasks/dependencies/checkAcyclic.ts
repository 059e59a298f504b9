/** Refuses dependencies that would make a task wait for itself. */
import { Effect, Option } from "effect"
import { refuse } from "../../continuity/Errors.ts"
import type * as DependencyStore from "./DependencyStore.ts"

/** Looks from both sides, because one of them is usually small: a walk that ends finds every cycle. */
export const checkAcyclic = Effect.fnUntraced(function* (
  dependencies: ReturnType<typeof DependencyStore.make>,
  project_id: string,
  id: string,
  added: ReadonlyArray<string>
) {
  for (const walk of [dependencies.waitedForBy(project_id, id, added), dependencies.waitFor(project_id, added, id)]) {
    const { found, whole } = Option.getOrThrow(yield* walk)
    if (found) return yield* refuse("task_dependency_cycle")
    if (whole) return
  }
  return yield* refuse("task_graph_too_large")
})
