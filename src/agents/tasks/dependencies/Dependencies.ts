/** What a task waits for: tasks that exist, close no cycle and are not waited for by too many; and which are unfinished. */
import { Effect } from "effect"
import { withDetails } from "../../../wire/Refusal.ts"
import { refuse } from "../../continuity/Errors.ts"
import { checkAcyclic } from "./checkAcyclic.ts"
import { mostWaiting } from "./Cycle.ts"
import type * as DependencyStore from "./DependencyStore.ts"
import type { Task } from "../Shapes.ts"

export const make = (store: ReturnType<typeof DependencyStore.make>) => {
  const checkDependencies = Effect.fnUntraced(function* (project_id: string, depends_on: ReadonlyArray<string>) {
    const found = yield* store.findAll(project_id, depends_on)
    if (found.length !== depends_on.length) return yield* withDetails(refuse("task_not_found"), { field: "depends_on" })
  })

  /** Checks that the tasks exist and close no cycle, then replaces the dependencies. */
  const setDependencies = Effect.fnUntraced(function* (
    project_id: string,
    { id, depends_on: old }: Task,
    depends_on: ReadonlyArray<string>
  ) {
    yield* checkDependencies(project_id, depends_on)
    const added = depends_on.filter((other) => !old.includes(other))
    if (added.length > 0) {
      yield* checkCrowds(project_id, added)
      yield* checkAcyclic(store, project_id, id, added)
    }
    yield* store.replaceDependencies(project_id, id, depends_on)
  })

  const checkCrowds = Effect.fnUntraced(function* (project_id: string, added: ReadonlyArray<string>) {
    const crowded = yield* store.crowded(project_id, added)
    if (crowded.length > 0) {
      return yield* withDetails(
        refuse("task_graph_too_large"),
        { field: "depends_on", crowded: crowded.map(({ id }) => id), maximum: mostWaiting },
        `${mostWaiting.toLocaleString("en")} tasks wait for one of these already. Let this task wait for one of those instead.`
      )
    }
  })

  /** Ids of unfinished dependencies. Skips the query if there cannot be any: none at all, or ready before and unchanged. */
  const unfinishedOf = Effect.fnUntraced(function* (
    project_id: string,
    after: Task,
    before: Task,
    depends_on: ReadonlyArray<string> | undefined
  ) {
    if (after.depends_on.length === 0 || (before.ready && depends_on === undefined)) return []
    const found = yield* store.findAll(project_id, after.depends_on)
    return found.filter(({ status }) => status !== "done" && status !== "cancelled").map(({ id }) => id)
  })

  return { checkDependencies, checkCrowds, setDependencies, unfinishedOf }
}
