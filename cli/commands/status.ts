/** `status` prints the overview of the whole service once, or with --watch every two seconds. */
import { Console, Effect } from "effect"
import { Flag } from "effect/cli"
import type { Status } from "../../src/people/operator/Overview.ts"
import { command, using } from "../support/frames/command.ts"
import { stdoutClosed } from "../support/frames/frame.ts"
import { HeldServices } from "../support/services/HeldServices.ts"
import { facts, json, type Line, next, printed, table } from "../support/terminal/Print.ts"

const clearScreen = "\u001B[H\u001B[2J"

export const status = command("status", {
  description: "Show counts, what expires soon, what waits to be sent, and the refusals of the last 24 hours",
  flags: {
    watch: Flag.Boolean("watch").pipe(
      Flag.withDescription("Repeat every two seconds until Ctrl-C: a terminal is redrawn, --json prints one line each"),
      Flag.withDefault(false)
    )
  },
  remote: "read",
  run: ({ watch }, asJson) =>
    using(({ overview }) =>
      Effect.flatMap(HeldServices, (held) =>
        watch && held === undefined ? watched(overview.take, asJson) : overview.take
      )
    ),
  remotely: ({ watch }, call, asJson) => {
    const take = Effect.map(call({ watch: false }), (answer) => answer as Status)
    return watch ? watched(take, asJson) : take
  },
  print: (status) => [...lines(status), next(advice(status))]
})

/** Only what reads along is redrawn: a terminal, or a program that takes one line after another. */
const watched = <E extends { readonly _tag: string; readonly message: string }>(
  take: Effect.Effect<Status, E>,
  asJson: boolean
): Effect.Effect<Status, E> => {
  if (!(asJson || process.stdout.isTTY)) return take
  const tick = asJson
    ? Effect.flatMap(take, (status) => Console.log(json(status)))
    : Effect.flatMap(take, (status) => Console.log(`${clearScreen}${printed(lines(status))}`))
  // Keep watching while the database is away: its return is one of the things to watch for.
  const failed = ({ _tag: code, message }: E) =>
    asJson ? Console.error(json({ error: { code, message } })) : Console.log(`${clearScreen}${printed([message])}`)
  return tick.pipe(
    Effect.catch(failed),
    Effect.andThen(Effect.sleep("2 seconds")),
    Effect.forever,
    Effect.raceFirst(stdoutClosed)
  )
}

const lines = ({ at, backups, limits, numbers, pauses, processes, refused }: Status): ReadonlyArray<Line> => {
  const { database_bytes, ...counts } = numbers
  return [
    ...facts({ at, ...counts, database: `${(database_bytes / 1_048_576).toFixed(1)} MiB` }),
    "",
    ...backupLines(backups),
    "",
    ...(processes.length > 0 ? [...table(processes, ["worker", "pid", "age", "memory_bytes"], ""), ""] : []),
    ...table(pauses, ["environment", "paused_until", "reason", "failures"], "No push environment is paused."),
    "",
    ...table(limits, ["project_id", "limit", "value", "maximum"], "No project has used half of a limit."),
    "",
    ...table(refused, ["last_at", "action", "code", "times"], "No known caller was refused in the last 24 hours.")
  ]
}

const backupLines = (backups: Status["backups"]) => {
  if (backups === null) return ["The service makes no backups: SERVICE_BACKUP_DIR is not set."]
  const { every_seconds, good, last_good_at, last_restored_at, not_good, problem } = backups
  return [
    ...facts({
      last_good_backup: last_good_at ?? "none",
      last_restored_backup: last_restored_at ?? "none",
      backups: `${good} good, ${not_good} not good, one every ${every_seconds} s`
    }),
    ...(problem === null ? [] : [problem])
  ]
}

const advice = ({ limits, numbers, pauses, refused }: Status) => {
  const [fullest] = limits
  if (pauses.length > 0) return "push-status"
  if (fullest !== undefined) return `show-project-limits --project ${fullest.project_id}`
  if (numbers.dead_letters > 0) return "list-push-dead-letters"
  if (refused.length > 0 || numbers.grants_replayed_elsewhere > 0) return "list-audit-events"
  return numbers.projects === 0 ? "create-project --name NAME" : "list-bridges --project ID"
}
