/**
 * The frame of a command that nothing undoes. On a terminal it shows what it would end and asks; `--yes` does it without
 * asking, `--dry-run` only shows. Without a terminal nothing asks: what destroys content then needs --yes.
 *
 * For a service elsewhere the caller asks: its first request is the dry run.
 */
import { Console, Data, Effect, Option } from "effect"
import type { Command } from "effect/cli"
import type { Loss } from "../../../src/people/operator/Losses.ts"
import { ask, asks } from "../terminal/ask.ts"
import { command } from "./command.ts"
import * as Flags from "../Flags.ts"
import type { Parts, RemoteFailure } from "./frame.ts"
import { facts, next, printed, typedWithout } from "../terminal/Print.ts"

class NotConfirmed extends Data.TaggedError("NotConfirmed") {
  override readonly message = "Not confirmed: nothing was changed."
}
class NothingFound extends Data.TaggedError("NothingFound") {
  override readonly message = "Nothing fits these flags: the command would change nothing."
}

const own = { yes: Flags.yes, dryRun: Flags.dryRun }
type Own = Command.Command.Config.Infer<typeof own>

interface DryRun {
  readonly dry_run: true
}

export const irreversible = <
  const Name extends string,
  const Given extends Command.Command.Config,
  A extends object,
  E,
  E2
>(
  name: Name,
  parts: Omit<Parts<Given, A, E>, "remotely" | "refuse" | "ok"> & {
    readonly refuse?: (flags: Command.Command.Config.Infer<Given>) => string | undefined
    /** What the command would end. */
    readonly losses: (flags: Command.Command.Config.Infer<Given>) => Effect.Effect<Option.Option<Loss>, E2>
    /** It destroys content, and so needs --yes if nobody can be asked. */
    readonly destroys?: true
    /** Whether these flags need no confirmation. */
    readonly isConfirmed?: (flags: Command.Command.Config.Infer<Given>) => boolean
  }
) => {
  type All = Command.Command.Config.Infer<Given> & Own
  const isConfirmed = (flags: All) => flags.dryRun || flags.yes || (parts.isConfirmed?.(flags) ?? false)

  const confirming = Effect.fnUntraced(function* (loss: object) {
    yield* Console.error(printed([`${name} is about to end:`, ...facts(loss)]))
    if (!(yield* ask("Continue? [y/N] "))) return yield* new NotConfirmed()
  })

  const run = Effect.fnUntraced(function* (all: All, asJson: boolean) {
    const { dryRun, yes: _, ...rest } = all
    const flags = rest as Command.Command.Config.Infer<Given>
    if (dryRun) {
      const loss = Option.getOrUndefined(yield* parts.losses(flags))
      return loss === undefined ? yield* new NothingFound() : { dry_run: true as const, ...loss }
    }
    if (!isConfirmed(all) && (yield* asks)) {
      const loss = yield* parts.losses(flags)
      // What is not there the command itself refuses.
      if (Option.isSome(loss)) yield* confirming(loss.value)
    }
    return yield* parts.run(flags, asJson)
  })

  const remotely = Effect.fnUntraced(function* (
    flags: All,
    call: Parameters<NonNullable<Parts<Given, A, E>["remotely"]>>[1]
  ) {
    if (isConfirmed(flags) || !(yield* asks)) return (yield* call({})) as A | DryRun
    const { dry_run: _, ...loss } = (yield* call({ "dry-run": true })) as DryRun
    yield* confirming(loss)
    return (yield* call({ yes: true })) as A
  }) as (flags: All, call: unknown) => Effect.Effect<A | DryRun, RemoteFailure>

  return command<Name, Given & typeof own, A | DryRun, E | E2 | NotConfirmed | NothingFound>(name, {
    description: parts.description,
    ...(parts.remote !== undefined && { remote: parts.remote }),
    flags: { ...parts.flags, ...own },
    refuse: (given, asks) => {
      const flags = given as All
      const refused = parts.refuse?.(flags)
      if (refused !== undefined || parts.destroys === undefined || asks || isConfirmed(flags)) return refused
      return "Nothing brings back what is erased. Repeat the command with --yes, or first with --dry-run."
    },
    run: (flags, asJson) => run(flags as All, asJson),
    remotely: (flags, call) => remotely(flags as All, call),
    print: (result) => {
      if (!("dry_run" in result)) return parts.print(result)
      const { dry_run: _, ...loss } = result
      return [...facts(loss), "Nothing was changed.", next(typedWithout(name, "dry-run"))]
    }
  })
}
