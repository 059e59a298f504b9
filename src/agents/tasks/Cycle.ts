/** Whether tasks wait for each other in a circle. */

type Waits = ReadonlyMap<string, ReadonlyArray<string>>

/** A task of a circle and the one it waits for there, if there is a circle. */
export const edgeOfCycle = (waits: Waits): readonly [task_id: string, depends_on: string] | undefined => {
  const left = leftOver(waits)
  const seen = new Set<string>()
  let [task] = left
  while (task !== undefined) {
    seen.add(task)
    const next = waits.get(task)!.find((id) => left.has(id))!
    if (seen.has(next)) return [task, next]
    task = next
  }
}

/** What remains when again and again the tasks are taken away that wait for nothing that remains. */
const leftOver = (waits: Waits): ReadonlySet<string> => {
  const left = new Set(waits.keys())
  const count = new Map<string, number>()
  const waiting = new Map<string, Array<string>>()
  for (const [task, ids] of waits) {
    const open = ids.filter((id) => left.has(id))
    count.set(task, open.length)
    for (const id of open) waiting.set(id, [...(waiting.get(id) ?? []), task])
  }
  const free = [...left].filter((task) => count.get(task) === 0)
  for (const done of free) {
    left.delete(done)
    for (const task of waiting.get(done) ?? []) {
      count.set(task, count.get(task)! - 1)
      if (count.get(task) === 0) free.push(task)
    }
  }
  return left
}
