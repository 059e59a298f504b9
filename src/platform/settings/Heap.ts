/** The heap that V8 gives this process. */
import { getHeapStatistics } from "node:v8"

const mib = 1024 * 1024
/** MiB that one of several processes has at least. */
const leastOfPart = 256
/** MiB that a semi-space may take by default; the young generation has three. */
const usualSemiSpace = 64

/** Where Node takes its options from. */
const given = ({ env, execArgv }: NodeJS.Process) => [...execArgv, env["NODE_OPTIONS"] ?? ""].join(" ")

/** Bytes for what lives longer: V8 counts the young generation as part of the heap's limit. */
export const oldGeneration = (limit = getHeapStatistics().heap_size_limit, options = given(process)): number => {
  const [, semiSpace = usualSemiSpace] = /--max-semi-space-size=(\d{1,9})/.exec(options) ?? []
  return limit - 3 * Number(semiSpace) * mib
}

/** MiB of the old generation for one of so many processes, which share what one would have. */
export const partOfHeap = (processes: number, all = oldGeneration()): number =>
  Math.max(leastOfPart, Math.floor(all / mib / processes))
