import { Console, Effect } from "effect"
import { Flag } from "effect/cli"
import type { Status } from "../src/people/operator/Overview.ts"
import { command, json, using } from "./support/command.ts"
import { facts, next, table } from "./support/print.ts"

const clear = "\u001B[H\u001B[2J"

export const status = command("status", {
  description: "Show what there is, what is about to end, what waits, and what was refused in the last day",
  flags: {
    watch: Flag.Boolean("watch").pipe(
      Flag.withDescription("Again every two seconds, until Ctrl-C: drawn anew on a terminal, with --json a line each"),
      Flag.withDefault(false)
    )
  },
  run: ({ watch }, asJson) =>
    using(({ overview }) => {
      if (!watch || !(asJson || process.stdout.isTTY)) return overview.take
      const tick = asJson
        ? Effect.flatMap(overview.take, (status) => Console.log(json(status)))
        : Effect.flatMap(overview.take, (status) => Console.log(`${clear}${shown(status).join("\n")}`))
      // A database that is away for a while is one of the things to watch.
      const lost = ({ _tag: code, message }: { readonly _tag: string; readonly message: string }) =>
        asJson ? Console.error(json({ error: { code, message } })) : Console.log(`${clear}${message}`)
      return tick.pipe(
        Effect.catch(lost),
        Effect.andThen(Effect.sleep("2 seconds")),
        Effect.forever,
        Effect.raceFirst(nobodyReads)
      )
    }),
  print: (status) => [...shown(status), next(advice(status))]
})

/** `| head` has seen enough: a terminal's Ctrl-C does not reach whoever writes on. */
const nobodyReads = Effect.callback<never>((resume) => {
  process.stdout.once("error", () => resume(Effect.interrupt))
})

const shown = ({ at, numbers, pauses, refused }: Status): ReadonlyArray<string> => {
  const { database_bytes, ...counts } = numbers
  return [
    ...facts({ at, ...counts, database: `${(database_bytes / 1_048_576).toFixed(1)} MiB` }),
    "",
    ...table(pauses, ["environment", "paused_until", "reason", "failures"], "No push environment is paused."),
    "",
    ...table(refused, ["last_at", "action", "code", "times"], "Nothing was refused to a known caller in the last day.")
  ]
}

const advice = ({ numbers, pauses, refused }: Status) => {
  if (pauses.length > 0) return "push-status"
  if (numbers.dead_letters > 0) return "list-push-dead-letters"
  if (refused.length > 0) return "list-audit-events"
  return numbers.projects === 0 ? "create-project --name NAME" : "list-bridges --project ID"
}
