/**
 * The edge of a command line: arguments in, exit code out.
 *
 * Usage errors, failures and log lines go to stderr, so that stdout is either the result or empty. (A long list
 * with --json is printed while it is read, so a late failure cuts it.)
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Layer, Option, References } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { calledAs } from "../../src/platform/process/CalledAs.ts"
import { exitCode } from "../../src/platform/process/Exit.ts"
import { loggingToStderr } from "../../src/platform/process/Logging.ts"
import { handleSignals } from "../../src/platform/process/Signals.ts"
import { version } from "../../src/platform/settings/Package.ts"
import { codeOf, usageMessage } from "./failures.ts"
import { helpOf, typedAs } from "./help.ts"
import { asJson, json, printed } from "./terminal/Print.ts"

export const run = <Name extends string, Input, ContextInput, E>(
  root: Command.Command<Name, Input, ContextInput, E, Command.Environment>,
  /** The exit code after a signal. */
  interrupted = () => 130
) => {
  handleSignals()
  Command.runWith(root, { version })(process.argv.slice(2)).pipe(
    Effect.tapCause(report),
    Effect.provide([NodeServices.layer, presenter, builtIns, quiet, loggingToStderr]),
    NodeRuntime.runMain({
      disableErrorReporting: true,
      teardown: (exit, onExit) => {
        const end = () => {
          if (exit._tag === "Success" && writeError !== undefined) {
            process.stderr.write(`The result could not be written: ${writeError}\n`)
            return onExit(1)
          }
          if (exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause)) return onExit(interrupted())
          exitCode(exit, onExit)
        }
        if (exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause)) return setImmediate(end)
        // A pipe takes a long result in pieces: exiting before it was read would cut it off.
        process.stdout.write("", () => setImmediate(end))
      }
    })
  )
}

/** Why a write to stdout failed: a full disk, a closed pipe. The event comes after the write, hence `setImmediate`. */
let writeError: string | undefined
process.stdout.on("error", ({ message }) => (writeError = message))

const builtIns = CliConfig.layer({
  builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]
})

/** With --json, stderr holds at most one JSON object; --log-level turns log lines on again. */
const quiet = Layer.succeed(References.MinimumLogLevel, asJson ? "None" : "Warn")

const printError = (code: string, message: string) =>
  Console.error(asJson ? json({ error: { code, message } }) : printed(message.split("\n")))

/** Help that was requested goes to stdout; help shown because of a mistake goes to stderr. */
const presenter = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag === "InvalidInvocation") {
      const help = asJson ? "" : `\nSee: ${typedAs(event.commandPath)} --help`
      return printError("usage", event.errors.map(usageMessage).join("\n") + help)
    }
    if (event._tag === "Help" && event.reason === "Implicit") {
      return asJson ? printError("usage", "Missing command; see --help.") : Console.error(helpOf(event.helpDoc))
    }
    if (event._tag === "Help") return Console.log(helpOf(event.helpDoc))
    return CliOutput.defaultPresenter.present(event)
  }
})

const report = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  if (Cause.hasInterruptsOnly(cause)) return
  const failure = Cause.findErrorOption(cause)
  if (Option.isNone(failure)) {
    const { withoutValues } = yield* Effect.promise(() => import("../../src/platform/database/Persistence.ts"))
    yield* Effect.logError("The command failed").pipe(Effect.annotateLogs(withoutValues(cause)))
    const where = asJson ? "run it again with --log-level error and report the log line" : "report the log line above"
    return yield* printError("internal_error", `The command failed because of a defect; ${where}.`)
  }
  const { _tag, message } = failure.value as { readonly _tag: string; readonly message: string }
  if (_tag === "ShowHelp" || _tag === "NotOk") return
  if (_tag === "bridge_persistence_error")
    return yield* printError(
      _tag,
      `The database did not answer; try again, and if it persists run: ${calledAs("service-admin")} doctor`
    )
  yield* printError(codeOf(_tag), message)
})
