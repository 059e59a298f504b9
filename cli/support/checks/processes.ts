/** Says how the service is divided between processes, which of them run, and whether the machine has processors for them. */
import { availableParallelism } from "node:os"
import { workersAt } from "../../../src/platform/process/PortHolder.ts"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { type Check, check } from "./Check.ts"

export const processes = (
  { database, http, processes }: Pick<Settings["Service"], "database" | "http" | "processes">,
  processors = availableParallelism(),
  running = workersAt(http.port)
): ReadonlyArray<Check> => {
  if (processes === 1) return []
  const parts = `each has ${database.poolSize} connections to the database and ${http.connections} of clients`
  const those = running.map(
    ({ age, memory_bytes, pid, worker }) =>
      `${worker} (process ${pid}, ${Math.round(memory_bytes / 1_048_576)} MiB, for ${age} s)`
  )
  const run = those.length === 0 ? [] : [check("processes", "ok", `These workers run: ${those.join(", ")}.`)]
  const missing =
    those.length > 0 && running.length < processes
      ? [
          check(
            "processes",
            "warn",
            `${running.length} of ${processes} workers run: the log says why the others ended.`
          )
        ]
      : []
  if (processes <= processors)
    return [check("processes", "ok", `${processes} processes share the port; ${parts}.`), ...run, ...missing]
  const too = `${processes} processes share ${processors === 1 ? "one processor" : `${processors} processors`}, which makes them slower`
  return [check("processes", "warn", `${too}: set SERVICE_PROCESSES to auto.`), ...run, ...missing]
}
