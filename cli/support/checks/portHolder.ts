/** Which process of this machine listens at a port, as far as Linux tells this account: its own processes, and root all. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { basename } from "node:path"

/** Such as `python3, process 4711`; undefined if nobody says. */
export const portHolder = (port: number): string | undefined => {
  const sockets = new Set(["tcp", "tcp6"].flatMap((table) => listening(table, port)))
  const pid = sockets.size === 0 ? undefined : names("/proc").find((name) => /^\d+$/.test(name) && holds(name, sockets))
  return pid === undefined
    ? undefined
    : `${basename(tried(() => readlinkSync(`/proc/${pid}/exe`)) ?? "")}, process ${pid}`
}

/** The sockets of a table of the kernel that listen at the port: `0: 0100007F:2253 00000000:0000 0A ... inode`. */
const listening = (table: string, port: number) =>
  (tried(() => readFileSync(`/proc/net/${table}`, "utf8")) ?? "").split("\n").flatMap((line) => {
    const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/)
    return state === "0A" && Number.parseInt(local.split(":")[1]!, 16) === port ? [`socket:[${inode}]`] : []
  })

const holds = (pid: string, sockets: ReadonlySet<string>) =>
  names(`/proc/${pid}/fd`).some((file) => sockets.has(tried(() => readlinkSync(`/proc/${pid}/fd/${file}`)) ?? ""))

const names = (folder: string) => tried(() => readdirSync(folder)) ?? []

/** What ends meanwhile, or belongs to another account, is passed over. */
const tried = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
