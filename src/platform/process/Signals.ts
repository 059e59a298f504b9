/** The signals that Node would answer in a way that a service must not. Called first by every program. */
export const handleSignals = () => {
  // By default it opens Node's debugger, through which any process of this account could read every secret.
  process.on("SIGUSR1", () => {})
  // A closed terminal and Ctrl-\ would end the process at once, and leave the embedded PostgreSQL running.
  for (const signal of ["SIGHUP", "SIGQUIT"] as const) process.on(signal, () => process.kill(process.pid, "SIGTERM"))
}
