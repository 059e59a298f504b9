/**
 * Which process of this machine listens at a port, and its workers if it is the parent of several processes
 * (process/Parent.ts): as far as Linux tells this account, its own processes, and root all.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { basename } from "node:path"

export interface WorkerProcess {
  readonly worker: number
  readonly pid: number
  /** Since when it runs, in seconds. */
  readonly age: number
  readonly memory_bytes: number
}

/** Such as `python3, process 4711`; undefined if nobody says. */
export const portHolder = (port: number): string | undefined => {
  const pid = holderOf(port)
  return pid === undefined
    ? undefined
    : `${basename(tried(() => readlinkSync(`/proc/${pid}/exe`)) ?? "")}, process ${pid}`
}

/** By their number; none if a single process listens there. */
export const workersAt = (port: number): ReadonlyArray<WorkerProcess> => {
  const holder = holderOf(port)
  if (holder === undefined) return []
  const uptime = Number(tried(() => readFileSync("/proc/uptime", "utf8"))?.split(" ")[0])
  return pids()
    .flatMap((pid) => tried(() => workerOf(holder, pid, uptime)) ?? [])
    .toSorted((a, b) => a.worker - b.worker)
}

const holderOf = (port: number) => {
  const sockets = new Set(["tcp", "tcp6"].flatMap((table) => listening(table, port)))
  return sockets.size === 0 ? undefined : pids().find((pid) => holds(pid, sockets))
}

/** The sockets of a table of the kernel that listen at the port: `0: 0100007F:2253 00000000:0000 0A ... inode`. */
const listening = (table: string, port: number) =>
  (tried(() => readFileSync(`/proc/net/${table}`, "utf8")) ?? "").split("\n").flatMap((line) => {
    const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/)
    return state === "0A" && Number.parseInt(local.split(":")[1]!, 16) === port ? [`socket:[${inode}]`] : []
  })

const holds = (pid: string, sockets: ReadonlySet<string>) =>
  names(`/proc/${pid}/fd`).some((file) => sockets.has(tried(() => readlinkSync(`/proc/${pid}/fd/${file}`)) ?? ""))

/** The name in `stat`, in brackets, may hold anything. After it come state, parent, and 17 fields later the start. */
const workerOf = (parent: string, pid: string, uptime: number): ReadonlyArray<WorkerProcess> => {
  const [, ppid, ...rest] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ")
  if (ppid !== parent) return []
  const argument = readFileSync(`/proc/${pid}/cmdline`, "utf8")
    .split("\0")
    .find((text) => text.startsWith(option))
  if (argument === undefined) return []
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return [
    {
      worker: Number(argument.slice(option.length)),
      pid: Number(pid),
      age: Math.round(uptime - Number(rest[17]) / ticks),
      memory_bytes: 1024 * Number(kib)
    }
  ]
}

const option = "--worker="
/** A second in `stat`. */
const ticks = 100

const pids = () => names("/proc").filter((name) => /^\d+$/.test(name))

const names = (folder: string) => tried(() => readdirSync(folder)) ?? []

/** What ends meanwhile, or belongs to another account, is passed over. */
const tried = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
