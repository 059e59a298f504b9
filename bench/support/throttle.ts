/** Gives a process a share of a processor, where there are too few for all that is measured. Linux, as root. */
import { Effect } from "effect"
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Microseconds. Short, so that a process that has used up its share is soon continued. */
const period = 20_000

/** By a quota of the kernel, until the scope closes: waiting for the database costs nothing of it. */
export const throttled = (pid: number, share: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const isFirstVersion = existsSync("/sys/fs/cgroup/cpu/cgroup.procs")
      const root = isFirstVersion ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup"
      const group = join(root, `bridge-bench-${pid}`)
      const quota = String(Math.round(share * period))
      mkdirSync(group)
      if (isFirstVersion) {
        writeFileSync(join(group, "cpu.cfs_period_us"), String(period))
        writeFileSync(join(group, "cpu.cfs_quota_us"), quota)
      } else writeFileSync(join(group, "cpu.max"), `${quota} ${period}`)
      writeFileSync(join(group, "cgroup.procs"), String(pid))
      return { group, root }
    }),
    ({ group, root }) =>
      Effect.sync(() => {
        writeFileSync(join(root, "cgroup.procs"), String(pid))
        rmdirSync(group)
      })
  )
