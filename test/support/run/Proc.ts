/** Memory, open files and CPU time of a process, read from Linux's /proc. */
import { existsSync, readdirSync, readFileSync } from "node:fs"

export const rssMib = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024

export const openFiles = (pid: number) => readdirSync(`/proc/${pid}/fd`).length

/** The limit on open files of a process, sockets included. */
export const fileLimit = (pid: number) =>
  Number(/Max open files\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))![1])

/** CPU seconds, user and system: of the process itself, and of its children that have ended. /proc counts hundredths. */
export const cpuTimes = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ").map(Number)
  return { own: (fields[11]! + fields[12]!) / 100, ended: (fields[13]! + fields[14]!) / 100 }
}

export const cpuSeconds = (pid: number) => cpuTimes(pid).own

/** The workers of a parent (SERVICE_PROCESSES), by their number. */
export const workersOf = (parent: number) =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const isChild = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ")[1] === String(parent)
        const [, number] = /--worker=(\d+)/.exec(readFileSync(`/proc/${pid}/cmdline`, "utf8")) ?? []
        return isChild && number !== undefined ? [{ pid: Number(pid), number: Number(number) }] : []
      } catch {
        return []
      }
    })
    .toSorted((a, b) => a.number - b.number)

export const isAlive = (pid: number) => existsSync(`/proc/${pid}`)
