/** Whether the model can have made a recorded history. */
import { type Bounds, newborn, type Step, steps, type World } from "./Life.ts"

const bounds: Bounds = { ids: 9, keys: 9, credentials: 3, processes: 1 }

/** The number of events that the model follows; all of them if it accepts the history. */
export const followed = (history: ReadonlyArray<string>): number => {
  let worlds: Iterable<World> = [newborn]
  for (const [at, event] of history.entries()) {
    const after = new Map<string, World>()
    for (const { seen, to } of stepsOf(worlds)) if (seen === event) after.set(JSON.stringify(to), to)
    if (after.size === 0) return at
    worlds = after.values()
  }
  return history.length
}

/** The steps of the worlds, and of those that come of what nobody sees: a command begins, ends, or sends. */
const stepsOf = (worlds: Iterable<World>): ReadonlyArray<Step> => {
  const all = new Map(Array.from(worlds, (world) => [JSON.stringify(world), world]))
  const found: Array<Step> = []
  // A map visits what is added meanwhile, too.
  for (const world of all.values())
    for (const step of steps(world, bounds)) {
      found.push(step)
      if (/ begins$|^ends|^sends/.test(step.name)) all.set(JSON.stringify(step.to), step.to)
    }
  return found
}
