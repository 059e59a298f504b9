/** Says how the service is divided between processes, and whether the machine has processors for them. */
import { availableParallelism } from "node:os"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { type Check, check } from "./Check.ts"

export const processes = (
  { database, http, processes }: Pick<Settings["Service"], "database" | "http" | "processes">,
  processors = availableParallelism()
): ReadonlyArray<Check> => {
  if (processes === 1) return []
  const parts = `each has ${database.poolSize} connections to the database and ${http.connections} of clients`
  if (processes <= processors) return [check("processes", "ok", `${processes} processes share the port; ${parts}.`)]
  const too = `${processes} processes share ${processors === 1 ? "one processor" : `${processors} processors`}, which makes them slower`
  return [check("processes", "warn", `${too}: set SERVICE_PROCESSES to auto.`)]
}
