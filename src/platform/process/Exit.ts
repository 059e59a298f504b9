/** Exit codes: 0 done or stopped by a signal, 1 failure, 64 usage, 75 temporary failure, 78 configuration (sysexits). */
import { Cause, Effect, type Exit } from "effect"

// By tag and not by class, so that `service-admin --help` does not load the modules of these errors.
const codes: Readonly<Record<string, number>> = {
  ShowHelp: 64,
  UsageError: 64,
  DatabaseUnreachable: 75,
  ManagedPostgresError: 75,
  bridge_persistence_error: 75,
  bridge_rotation_in_progress: 75,
  rate_limited: 75,
  ServiceUnreachable: 75,
  OAuthUnreachable: 75,
  FolderInUse: 75,
  FolderUnavailable: 75,
  ConfigurationError: 78,
  DataFolderError: 78,
  DatabaseForbids: 78,
  DatabaseUnsuitable: 78,
  MigrationError: 78,
  NoServiceHere: 78,
  PostgresMissing: 78,
  SecretsError: 78,
  FolderError: 78,
  OtherBridge: 78,
  NotEnrolled: 78
}

const tagOf = (error: unknown) => (error instanceof Error && "_tag" in error ? String(error._tag) : "")

export const exitCode = <A, E>(exit: Exit.Exit<A, E>, onExit: (code: number) => void): void => {
  if (exit._tag === "Success" || Cause.hasInterruptsOnly(exit.cause)) return onExit(0)
  onExit(codes[tagOf(Cause.squash(exit.cause))] ?? 1)
}

/** Logs in one line why the process ends. */
export const explain = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.tapCause(self, (cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Cause.squash(cause) as Error
    if (tagOf(error) in codes) return Effect.logFatal(error.message)
    if (tagOf(error) === "ServeError") return Effect.logFatal(`Cannot listen: ${String(error.cause)}`)
    return Effect.logFatal("The service failed", cause)
  })
