/** How a process ends: 0 done or stopped by a signal, 1 failure, 75 temporary, 78 configuration (sysexits). */
import { Cause, Effect, type Exit } from "effect"
import { HttpServerError } from "effect/http"
import { ConfigurationError } from "./Config.ts"
import { ManagedPostgresError } from "./database/ManagedPostgres.ts"
import { MigrationError } from "./database/Migrations.ts"
import { SecretsError } from "./Secrets.ts"

const configuration = [ConfigurationError, MigrationError, SecretsError]
const explained = [...configuration, ManagedPostgresError]

export const exitCode = <A, E>(exit: Exit.Exit<A, E>, onExit: (code: number) => void): void => {
  if (exit._tag === "Success" || Cause.hasInterruptsOnly(exit.cause)) return onExit(0)
  const error = Cause.squash(exit.cause)
  onExit(configuration.some((kind) => error instanceof kind) ? 78 : 1)
}

/** Says in one line why the process cannot go on. */
export const explain = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.tapCause(self, (cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Cause.squash(cause)
    if (error instanceof Error && explained.some((kind) => error instanceof kind)) return Effect.logFatal(error.message)
    if (error instanceof HttpServerError.ServeError) return Effect.logFatal(`Cannot listen: ${String(error.cause)}`)
    return Effect.logFatal("The service failed", cause)
  })
