/** How a process ends: 0 done or stopped by a signal, 1 failure, 64 usage, 75 temporary, 78 configuration (sysexits). */
import { Cause, type Exit } from "effect"

// By tag, so that `service-admin --help` need not load the modules of these errors.
const codes: Readonly<Record<string, number>> = {
  ShowHelp: 64,
  DatabaseUnreachable: 75,
  ManagedPostgresError: 75,
  bridge_persistence_error: 75,
  ConfigurationError: 78,
  MigrationError: 78,
  SecretsError: 78
}

export const exitCode = <A, E>(exit: Exit.Exit<A, E>, onExit: (code: number) => void): void => {
  if (exit._tag === "Success" || Cause.hasInterruptsOnly(exit.cause)) return onExit(0)
  const error = Cause.squash(exit.cause)
  const tag = error instanceof Error && "_tag" in error ? String(error._tag) : ""
  onExit(codes[tag] ?? 1)
}
