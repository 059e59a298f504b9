/**
 * Runs commands inside the server, for operators elsewhere: the same definitions, with the server's own services, and the
 * result goes into the answer instead of to stdout.
 */
import { NodeServices } from "@effect/platform-node"
import { ConfigProvider, Console, Context, Effect, Layer } from "effect"
import { CliConfig, Command } from "effect/cli"
import { Commands, type Flags, type RemoteCommand } from "../../../src/operator/Commands.ts"
import { version } from "../../../src/platform/settings/Package.ts"
import { refuse } from "../../../src/wire/Errors.ts"
import { Refusal, withDetails } from "../../../src/wire/Refusal.ts"
import { commands, serviceAdmin } from "../../commands/all.ts"
import { codeOf, usageMessage } from "../failures.ts"
import { pathFlags } from "../Flags.ts"
import { Write } from "../terminal/Print.ts"
import { services } from "../services/Services.ts"
import { HeldServices } from "../services/HeldServices.ts"
import { argumentsOf } from "./flags.ts"
import { RemoteUse } from "./RemoteUse.ts"
import { targetFlagNames } from "./targetFlagNames.ts"

const byName: ReadonlyMap<string, RemoteUse | undefined> = new Map(
  commands.map((command) => [command.name, Context.get(command.annotations, RemoteUse)])
)

export const served = Layer.effect(
  Commands,
  Effect.gen(function* () {
    const held = { ...(yield* services), migrated: [] }

    const run = Effect.fnUntraced(function* (name: string, flags: Flags) {
      const elsewhere = Object.keys(flags).find((flag) => pathFlags.has(flag) || targetFlagNames.includes(flag))
      if (elsewhere !== undefined) return yield* invalid(`--${elsewhere} is for the caller's own machine.`)
      const printed: Array<string> = []
      const write = (text: string) => void printed.push(text)
      yield* Command.runWith(serviceAdmin, { version, renderErrors: false })([
        name,
        ...argumentsOf(flags),
        "--json"
      ]).pipe(
        Effect.provideService(HeldServices, held),
        Effect.provideService(Write, write),
        Effect.provideService(Console.Console, { ...globalThis.console, log: write, error: () => {} }),
        Effect.provide([
          NodeServices.layer,
          CliConfig.layer({ builtIns: [] }),
          // What this process was set up with is none of the caller's defaults.
          ConfigProvider.layer(ConfigProvider.fromUnknown({}))
        ]),
        Effect.catch(refusalOf)
      )
      return printed.join("")
    })

    return {
      find: (name: string): RemoteCommand | "local" | undefined => {
        if (!byName.has(name)) return undefined
        const use = byName.get(name)
        return use === undefined ? "local" : { scope: `operator:${use}`, run: (flags) => run(name, flags) }
      }
    }
  })
)

const invalid = (message: string) => withDetails(refuse("invalid_request"), {}, message)

interface Failure {
  readonly _tag: string
  readonly message: string
}

/** The result of a command that found a problem is a result. */
const refusalOf = (error: Failure): Effect.Effect<void, Refusal> => {
  if (error._tag === "NotOk") return Effect.void
  if (error instanceof Refusal) return Effect.fail(error)
  if (error._tag === "ShowHelp") {
    const { errors } = error as unknown as { readonly errors: ReadonlyArray<Parameters<typeof usageMessage>[0]> }
    return Effect.fail(invalid(errors.map(usageMessage).join("\n")))
  }
  return Effect.fail(new Refusal({ _tag: codeOf(error._tag), status: 409, message: error.message }))
}
