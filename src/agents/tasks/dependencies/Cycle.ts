/** Finds a cycle between tasks that wait for each other. */
import { Graph, Option } from "effect"

/** How many tasks the check of an update visits in each direction (DependencyStore.ts). */
export const furthest = 2000

/** How many tasks may wait for one: closing or reopening it writes each of them. */
export const mostWaiting = 1000

/**
 * Returns a task of a cycle and the task that it waits for there, or undefined. `waits` has an entry for every task to
 * consider; other ids in its lists are ignored. Takes time linear in tasks and dependencies.
 */
export const edgeOfCycle = (
  waits: ReadonlyMap<string, ReadonlyArray<string>>
): readonly [task_id: string, depends_on: string] | undefined => {
  const graph = Graph.directed<string, undefined>((draft) => {
    const nodes = new Map(Array.from(waits.keys(), (id) => [id, Graph.addNode(draft, id)]))
    for (const [task, ids] of waits) {
      for (const id of ids) {
        const target = nodes.get(id)
        if (target !== undefined) Graph.addEdge(draft, nodes.get(task)!, target, undefined)
      }
    }
  })
  const cycle = Option.getOrUndefined(Graph.findCycle(graph))
  if (cycle === undefined) return undefined
  const [task, target] = cycle.path.slice(-2).map((node) => Option.getOrThrow(Graph.getNode(graph, node)))
  return [task!, target!]
}
