/**
 * The frame of every command: parse flags, run one effect, print its result for people or, with --json, for programs.
 *
 * stdout carries only the result. Lists have a frame of their own (list.ts). run.ts turns failures into messages and exit
 * codes.
 */
import { Console, Data, Effect } from "effect"
import { CliError, Command, Flag, GlobalFlag } from "effect/cli"
import { asks } from "../terminal/ask.ts"
import { json, type Line, printed } from "../terminal/Print.ts"
import type { More } from "../remote/remotely.ts"
import { RemoteUse } from "../remote/RemoteUse.ts"

export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withDescription("Print the result as one JSON object, and errors as JSON on stderr"),
    Flag.withDefault(false)
  )
})

/** The result was printed, but it reports a problem: exit code 1 without another message. */
export class NotOk extends Data.TaggedError("NotOk") {}

export interface RemoteFailure {
  readonly _tag: string
  readonly message: string
}

export interface Parts<Flags extends Command.Command.Config, A, E> {
  readonly description: string
  readonly flags: Flags
  /**
   * Returns a message if these flags cannot be combined; it becomes a usage error. `asks`: whether somebody at a terminal
   * can be asked.
   */
  readonly refuse?: (flags: Command.Command.Config.Infer<Flags>, asks: boolean) => string | undefined
  readonly run: (flags: Command.Command.Config.Infer<Flags>, asJson: boolean) => Effect.Effect<A, E>
  /** Set if operators may run the command from elsewhere. Without it, it runs only where the database is. */
  readonly remote?: RemoteUse
  /**
   * What the caller does itself, if it does not only send its flags: it makes secrets and writes them to files. `call` sends
   * the flags, without those of files and with the ones that it is given.
   */
  readonly remotely?: (
    flags: Command.Command.Config.Infer<Flags>,
    call: (more: More) => Effect.Effect<unknown, RemoteFailure>,
    asJson: boolean
  ) => Effect.Effect<A, RemoteFailure>
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
  E2 = E,
  R2 = never
>(
  name: Name,
  parts: Parts<Flags, A, E>,
  /** How the result comes about; by default the command runs here, with the flags as they are. */
  resultOf: (flags: Command.Command.Config.Infer<Flags>, asJson: boolean) => Effect.Effect<A, E | E2, R2> = parts.run
) =>
  Command.make(
    name,
    parts.flags,
    Effect.fnUntraced(function* (flags: Command.Command.Config.Infer<Flags>) {
      const asJson = yield* Json
      const result = yield* resultOf(flags, asJson)
      yield* Console.log(asJson ? json(result) : printed(parts.print(result)))
      if (parts.ok?.(result) === false) return yield* new NotOk()
    })
  ).pipe(
    Command.withDescription(parts.description),
    Command.annotate(RemoteUse, parts.remote),
    Command.validate((flags) =>
      Effect.flatMap(asks, (asks) => {
        const message = parts.refuse?.(flags, asks)
        return message === undefined ? Effect.void : Effect.fail(new CliError.ValidationError({ message }))
      })
    )
  )

/** Stops when the reader closes the pipe (`| head`): the write fails, and without this a loop would never end. */
export const stdoutClosed = Effect.callback<never>((resume) => {
  const stop = () => resume(Effect.interrupt)
  process.stdout.once("error", stop)
  return Effect.sync(() => process.stdout.off("error", stop))
})
