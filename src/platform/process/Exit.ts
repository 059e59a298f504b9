/** Exit codes: 0 done or stopped by a signal, 1 failure, 64 usage, 75 temporary failure, 78 configuration (sysexits). */
import { Cause, Data, Effect, type Exit } from "effect"

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

/** Whether a restart does not help. */
export const isLasting = (code: number | null) => code === 64 || code === 78

/** A worker ended with this code before the service could serve. */
export class WorkerFailed extends Data.TaggedError("WorkerFailed")<{ readonly code: number }> {
  override readonly message = "The service stops, because a worker could not start: the worker's last line says why."
}

const tagOf = (error: unknown) => (error instanceof Error && "_tag" in error ? String(error._tag) : "")

export const exitCode = <A, E>(exit: Exit.Exit<A, E>, onExit: (code: number) => void): void => {
  if (exit._tag === "Success" || Cause.hasInterruptsOnly(exit.cause)) return onExit(0)
  const error = Cause.squash(exit.cause)
  onExit(error instanceof WorkerFailed ? error.code : (codes[tagOf(error)] ?? 1))
}

/** Logs in one line why the process ends. */
export const explain = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.tapCause(self, (cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Cause.squash(cause) as Error
    if (tagOf(error) in codes || error instanceof WorkerFailed) return Effect.logFatal(error.message)
    if (tagOf(error) === "ServeError") return Effect.logFatal(`Cannot listen: ${String(error.cause)}`)
    return Effect.logFatal("The service failed", cause)
  })
