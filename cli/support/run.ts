/**
 * The edge of the command: arguments in, exit code out.
 *
 * Usage errors, failures and log lines go to stderr, so that stdout is the result or nothing (contract section 8).
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Layer, Option, References } from "effect"
import { CliConfig, CliError, CliOutput, Command, GlobalFlag } from "effect/cli"
import { exitCode } from "../../src/platform/process/Exit.ts"
import { loggingAside } from "../../src/platform/process/Logging.ts"
import { version } from "../../src/platform/settings/Package.ts"

export const run = <Name extends string, Input, ContextInput, E>(
  root: Command.Command<Name, Input, ContextInput, E, Command.Environment>,
  /** The exit code of a command that a signal has ended. */
  interrupted = () => 130
) =>
  Command.runWith(root, { version })(process.argv.slice(2)).pipe(
    Effect.tapCause(report),
    Effect.provide([NodeServices.layer, presenter, builtIns, quiet, loggingAside]),
    NodeRuntime.runMain({
      disableErrorReporting: true,
      teardown: (exit, onExit) => {
        const end = () => {
          if (exit._tag === "Success" && unwritten !== undefined) {
            process.stderr.write(`The result could not be written: ${unwritten}\n`)
            return onExit(1)
          }
          if (exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause)) return onExit(interrupted())
          exitCode(exit, onExit)
        }
        setImmediate(end)
      }
    })
  )

/** Why stdout did not take something: a full disk, a reader that has gone. It says so a moment after the write. */
let unwritten: string | undefined
process.stdout.on("error", ({ message }) => (unwritten = message))

const builtIns = CliConfig.layer({
  builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]
})

// Asked of the arguments themselves: a usage error means that they could not be read in full.
const asJson = process.argv.slice(2).some((argument) => /^--json(=true)?$/.test(argument))

/** With --json no log line stands beside the one object, unless --log-level asks for it. */
const quiet = Layer.succeed(References.MinimumLogLevel, asJson ? "None" : "Warn")

const say = (code: string, message: string) =>
  Console.error(asJson ? JSON.stringify({ error: { code, message } }) : message)

/** Help that was asked for is a result; everything else about usage is not. */
const presenter = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag === "InvalidInvocation") {
      const help = asJson ? "" : `\nSee: ${event.commandPath.join(" ")} --help`
      return say("usage", event.errors.map(sentence).join("\n") + help)
    }
    if (event._tag === "Help" && event.reason === "Implicit") {
      return asJson
        ? say("usage", "Name a command; see --help.")
        : Console.error(formatter.formatHelpDoc(event.helpDoc))
    }
    return CliOutput.defaultPresenter.present(event)
  }
})

const formatter = CliOutput.defaultFormatter({ colors: false })

const sentence = (error: CliError.NonShowHelpErrors) => {
  if (error._tag === "InvalidValue") return `--${error.option}: ${error.expected}.`
  if (error._tag === "UnexpectedArgument") return "There is an argument too many: every value belongs to a --flag."
  return formatter.formatCliError(error)
}

const report = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  if (Cause.hasInterruptsOnly(cause)) return
  const failure = Cause.findErrorOption(cause)
  if (Option.isNone(failure)) {
    const { withoutValues } = yield* Effect.promise(() => import("../../src/platform/database/Persistence.ts"))
    yield* Effect.logError("The command failed").pipe(Effect.annotateLogs(withoutValues(cause)))
    const where = asJson ? "--log-level error shows where" : "the log line above says where"
    return yield* say("internal_error", `The command failed unexpectedly; ${where}.`)
  }
  const { _tag, message } = failure.value as { readonly _tag: string; readonly message: string }
  if (_tag === "ShowHelp" || _tag === "NotOk") return
  if (_tag === "bridge_persistence_error") return yield* say(_tag, "The database did not answer; try again.")
  yield* say(_tag.replaceAll(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase(), message)
})
