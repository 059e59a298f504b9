/**
 * The frame of every command: parse flags, run one effect, print its result for people or, with --json, for programs.
 *
 * stdout carries only the result. Lists have a frame of their own (list.ts). run.ts turns failures into messages and exit
 * codes.
 */
import { Console, Data, Effect } from "effect"
import { CliError, Command, Flag, GlobalFlag } from "effect/cli"
import { json, type Line, printed } from "./Print.ts"

export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withDescription("Print the result as one JSON object, and errors as JSON on stderr"),
    Flag.withDefault(false)
  )
})

/** The result was printed, but it reports a problem: exit code 1 without another message. */
export class NotOk extends Data.TaggedError("NotOk") {}

export interface Parts<Flags extends Command.Command.Config, A, E> {
  readonly description: string
  readonly flags: Flags
  /** Returns a message if these flags cannot be combined; it becomes a usage error. */
  readonly refuse?: (flags: Command.Command.Config.Infer<Flags>) => string | undefined
  readonly run: (flags: Command.Command.Config.Infer<Flags>, asJson: boolean) => Effect.Effect<A, E>
  /** Lines for people; the last one is the next command to type. */
  readonly print: (result: A) => ReadonlyArray<Line>
  /** Returns false if the printed result reports a problem. */
  readonly ok?: (result: A) => boolean
}

export const frame = <
  const Name extends string,
  const Flags extends Command.Command.Config,
  A extends object,
  E,
  E2 = never
>(
  name: Name,
  parts: Parts<Flags, A, E>,
  complete: (
    flags: Command.Command.Config.Infer<Flags>
  ) => Effect.Effect<Command.Command.Config.Infer<Flags>, E2> = Effect.succeed
) =>
  Command.make(
    name,
    parts.flags,
    Effect.fnUntraced(function* (flags: Command.Command.Config.Infer<Flags>) {
      const asJson = yield* Json
      const result = yield* parts.run(yield* complete(flags), asJson)
      yield* Console.log(asJson ? json(result) : printed(parts.print(result)))
      if (parts.ok?.(result) === false) return yield* new NotOk()
    })
  ).pipe(
    Command.withDescription(parts.description),
    Command.validate((flags) => {
      const message = parts.refuse?.(flags)
      return message === undefined ? Effect.void : Effect.fail(new CliError.ValidationError({ message }))
    })
  )

/** Stops when the reader closes the pipe (`| head`): the write fails, and without this a loop would never end. */
export const stdoutClosed = Effect.callback<never>((resume) => {
  process.stdout.once("error", () => resume(Effect.interrupt))
})
