/** Log lines: readable on a terminal, JSON elsewhere. `Redacted` values always print as `<redacted>`. */
import { Effect, Layer, Logger, References } from "effect"
import { Settings } from "../settings/Settings.ts"

/** SERVICE_LOG_LEVEL; until the settings are read, Info. */
export const logLevel = Layer.unwrap(
  Effect.map(Settings, ({ http }) => Layer.succeed(References.MinimumLogLevel, http.logLevel))
)

export const logging = Logger.layer([process.stdout.isTTY ? Logger.consolePretty() : Logger.consoleJson])

/** For commands: to stderr, because stdout is their result. */
export const loggingToStderr = Layer.merge(
  Logger.layer([process.stderr.isTTY ? Logger.consolePretty() : Logger.withConsoleError(Logger.formatJson)]),
  Layer.succeed(Logger.LogToStderr, true)
)
