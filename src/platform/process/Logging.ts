/** Log lines: readable on a terminal, JSON elsewhere. `Redacted` values always print as `<redacted>`. */
import { Effect, Layer, Logger, References } from "effect"
import type { Writable } from "node:stream"
import { Settings } from "../settings/Settings.ts"

/** SERVICE_LOG_LEVEL; until the settings are read, Info. */
export const logLevel = Layer.unwrap(
  Effect.map(Settings, ({ http }) => Layer.succeed(References.MinimumLogLevel, http.logLevel))
)

export const logging = Logger.layer([process.stdout.isTTY ? Logger.consolePretty() : linesTo(process.stdout)])

/** Bytes of lines that wait for a reader. */
const mostWaiting = 1_048_576

/**
 * One JSON object per line. Node keeps what nobody reads in memory, so lines are dropped beyond a limit; once somebody
 * reads again, a line says how many.
 */
export function linesTo(stream: Pick<Writable, "write" | "writableLength">): Logger.Logger<unknown, void> {
  let lost = 0
  return Logger.make((options) => {
    if (stream.writableLength > mostWaiting) {
      lost++
      return
    }
    if (lost > 0) {
      const message = `${lost} log lines were lost, because nobody read them`
      stream.write(`${Logger.formatJson.log({ ...options, logLevel: "Warn", message: [message] })}\n`)
      lost = 0
    }
    stream.write(`${Logger.formatJson.log(options)}\n`)
  })
}

/** For commands: to stderr, because stdout is their result. */
export const loggingToStderr = Layer.merge(
  Logger.layer([process.stderr.isTTY ? Logger.consolePretty() : Logger.withConsoleError(Logger.formatJson)]),
  Layer.succeed(Logger.LogToStderr, true)
)
