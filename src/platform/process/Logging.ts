/** Log lines: JSON, or readable on a terminal. `Redacted` values print as `<redacted>` wherever they stand. */
import { Effect, Layer, Logger, References } from "effect"
import { Settings } from "../settings/Settings.ts"

/** From SERVICE_LOG_LEVEL; until it is read, Info. */
export const logLevel = Layer.unwrap(
  Effect.map(Settings, ({ http }) => Layer.succeed(References.MinimumLogLevel, http.logLevel))
)

export const logging = Logger.layer([process.stdout.isTTY ? Logger.consolePretty() : Logger.consoleJson])

/** For commands, whose stdout is their result. */
export const loggingAside = Layer.merge(
  Logger.layer([process.stderr.isTTY ? Logger.consolePretty() : Logger.withConsoleError(Logger.formatJson)]),
  Layer.succeed(Logger.LogToStderr, true)
)
