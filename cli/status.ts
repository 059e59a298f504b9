import { Console, Effect } from "effect"
import { Flag } from "effect/cli"
import type { Status } from "../src/metrics/Overview.ts"
import { command, using } from "./command.ts"
import { facts, next, table } from "./print.ts"

const clear = "\u001B[H\u001B[2J"

export const status = command("status", {
  description: "Show what there is, what is about to end, and what was refused in the last day",
  flags: {
    watch: Flag.Boolean("watch").pipe(
      Flag.withDescription("On a terminal: again every two seconds, until Ctrl-C"),
      Flag.withDefault(false)
    )
  },
  refuse: ({ watch }) => (watch && !process.stdout.isTTY ? "--watch needs a terminal." : undefined),
  run: ({ watch }) =>
    using(({ overview }) => {
      if (!watch) return overview.take
      const lines = Effect.map(overview.take, (status) => shown(status).join("\n"))
      // A database that is away for a while is one of the things to watch.
      const drawn = Effect.catch(lines, ({ message }) => Effect.succeed(message))
      const draw = Effect.flatMap(drawn, (text) => Console.log(`${clear}${text}`))
      return Effect.forever(Effect.andThen(draw, Effect.sleep("2 seconds")))
    }),
  print: (status) => [...shown(status), next(advice(status))]
})

const shown = ({ at, numbers, refused }: Status): ReadonlyArray<string> => {
  const { database_bytes, ...counts } = numbers
  return [
    ...facts({ at, ...counts, database: `${(database_bytes / 1_048_576).toFixed(1)} MiB` }),
    "",
    ...table(refused, ["last_at", "action", "code", "times"], "Nothing was refused to a known caller in the last day.")
  ]
}

const advice = ({ numbers, refused }: Status) => {
  if (refused.length > 0) return "list-audit-events"
  return numbers.projects === 0 ? "create-project --name NAME" : "list-bridges --project ID"
}
