/** The signals that Node would answer in a way that a service must not. Called first by every program. */
import { workerNumber } from "../workers/Workers.ts"

export const handleSignals = () => {
  // By default it opens Node's debugger, through which any process of this account could read every secret.
  process.on("SIGUSR1", () => {})
  // A closed terminal and Ctrl-\ would end the process at once, and leave the embedded PostgreSQL running. They reach
  // every process of the terminal: the parent tells its workers what to do.
  for (const signal of ["SIGHUP", "SIGQUIT"] as const)
    process.on(signal, () => workerNumber === undefined && process.kill(process.pid, "SIGTERM"))
}

/** Instead of stopping. A process with a terminal still stops: the signal says that the terminal was closed. */
export const onHangUp = (act: () => void) => {
  if (process.stdin.isTTY || process.stdout.isTTY) return
  process.removeAllListeners("SIGHUP")
  process.on("SIGHUP", act)
}
