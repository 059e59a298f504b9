/**
 * What every command has in common: flags, one effect, and its result printed for people or, with --json, for programs.
 *
 * stdout carries the result and nothing else. A list prints as `{"items":[…]}`. How a failure ends is in run.ts.
 */
import { Console, Data, Effect } from "effect"
import { CliError, Command, Flag, GlobalFlag } from "effect/cli"
import type { Services } from "./services.ts"

export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withDescription("Print one JSON object, and failures as JSON on stderr"),
    Flag.withDefault(false)
  )
})

/** The result was printed, and it is not a good one. */
export class NotOk extends Data.TaggedError("NotOk") {}

export const command = <const Name extends string, const Flags extends Command.Command.Config, A extends object, E>(
  name: Name,
  parts: {
    readonly description: string
    readonly flags: Flags
    /** Why these flags do not go together; a usage error. */
    readonly refuse?: (flags: Command.Command.Config.Infer<Flags>) => string | undefined
    readonly run: (flags: Command.Command.Config.Infer<Flags>, asJson: boolean) => Effect.Effect<A, E>
    /** Lines for people; the last one is the next command to type. */
    readonly print: (result: A) => ReadonlyArray<string>
    readonly ok?: (result: A) => boolean
  }
) =>
  Command.make(
    name,
    parts.flags,
    Effect.fnUntraced(function* (flags: Command.Command.Config.Infer<Flags>) {
      const asJson = yield* Json
      const result = yield* parts.run(flags, asJson)
      yield* Console.log(asJson ? json(result) : parts.print(result).join("\n"))
      if (parts.ok?.(result) === false) return yield* new NotOk()
    })
  ).pipe(
    Command.withDescription(parts.description),
    Command.validate((flags) => {
      const message = parts.refuse?.(flags)
      return message === undefined ? Effect.void : Effect.fail(new CliError.ValidationError({ message }))
    })
  )

/** Work on the database. Everything heavy is loaded here, when a command runs: --help does not wait for it. */
export const using = <A, E>(work: (services: Services) => Effect.Effect<A, E>) =>
  Effect.flatMap(
    Effect.promise(() => import("./services.ts")),
    ({ withServices }) => withServices(work)
  )

export const json = (result: object) => JSON.stringify(Array.isArray(result) ? { items: result } : result)
