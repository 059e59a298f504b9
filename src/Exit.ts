/** How a process ends: 0 done or stopped by a signal, 1 failure, 75 temporary, 78 configuration (sysexits). */
import { Cause, type Exit } from "effect"
import { MigrationError } from "./database/Migrations.ts"
import { ConfigurationError } from "./Config.ts"
import { SecretsError } from "./Secrets.ts"

export const exitCode = <A, E>(exit: Exit.Exit<A, E>, onExit: (code: number) => void): void => {
  if (exit._tag === "Success" || Cause.hasInterruptsOnly(exit.cause)) return onExit(0)
  const error = Cause.squash(exit.cause)
  const configuration = [ConfigurationError, MigrationError, SecretsError].some((kind) => error instanceof kind)
  onExit(configuration ? 78 : 1)
}
