/** What Linux knows of a process. */
import { readdirSync, readFileSync } from "node:fs"

export const rssMib = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024

export const openFiles = (pid: number) => readdirSync(`/proc/${pid}/fd`).length

/** How many files a process may have open, sockets included. */
export const fileLimit = (pid: number) =>
  Number(/Max open files\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))![1])

/** /proc counts in hundredths of a second: user and system time, then those of children that have ended. */
export const cpuTimes = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ").map(Number)
  return { own: (fields[11]! + fields[12]!) / 100, ended: (fields[13]! + fields[14]!) / 100 }
}

export const cpuSeconds = (pid: number) => cpuTimes(pid).own
