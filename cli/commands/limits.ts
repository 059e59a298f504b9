/** The limits of a project: show and set them. */
import { DateTime, Effect, Option, Record } from "effect"
import { Flag } from "effect/cli"
import { type Changed, limitNames } from "../../src/operator/limits/LimitNames.ts"
import type { Limit } from "../../src/operator/limits/Limits.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { next, table } from "../support/terminal/Print.ts"

const others = ["embeddings", "memory_days", "receipt_days"] as const

const flagOf = (limit: Changed) => limit.replaceAll("_", "-")

const showProjectLimits = command("show-project-limits", {
  description: "Show what a project has used and may use",
  remote: "read",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ limits }) => limits.list(project)),
  print: (limits) => [...lines(limits), next("set-project-limits --project ID --entries N")]
})

/** Whether a period is set: what is older is erased. */
const erases = ({
  memory_days,
  receipt_days
}: {
  readonly memory_days: Option.Option<number | null>
  readonly receipt_days: Option.Option<number | null>
}) => [memory_days, receipt_days].some((days) => Option.getOrNull(days) !== null)

const setProjectLimits = irreversible("set-project-limits", {
  description: "Change limits of a project, at once for every process; only --memory-days and --receipt-days delete",
  remote: "write",
  flags: {
    project: Flags.project,
    stored_bytes: Flags.maximum(
      "stored-bytes",
      "Bytes of memory, tasks, receipts and remembered answers; index_bytes is four times as much"
    ),
    entries: Flags.maximum("entries", "Memory entries"),
    tasks: Flags.maximum("tasks", "Tasks"),
    concurrent_calls: Flags.maximum("concurrent-calls", "Tool calls at the same time"),
    concurrent_searches: Flags.maximum("concurrent-searches", "Searches among them"),
    searches_per_minute: Flags.maximum("searches-per-minute", "Searches in a minute"),
    writes_per_minute: Flags.maximum("writes-per-minute", "Calls of tools that write in a minute"),
    sessions: Flags.maximum("sessions", "Open sessions of the console"),
    channels: Flags.maximum("channels", "Channels that are not revoked"),
    embeddings: Flag.Literals("embeddings", ["on", "off"]).pipe(
      Flag.map((given) => (given === "on" ? null : 0)),
      Flag.withDescription("Whether text of the project may be sent for embeddings"),
      Flag.optional
    ),
    memory_days: Flags.days("memory-days", "Memory entries, active or not, are erased after so many days"),
    receipt_days: Flags.days("receipt-days", "Receipts are erased after so many days")
  },
  refuse: ({ project: _project, ...maxima }) => {
    if (Object.values(maxima).some(Option.isSome)) return undefined
    return `Name at least one of ${[...limitNames, ...others].map((limit) => `--${flagOf(limit)}`).join(", ")}.`
  },
  losses: ({ memory_days, project, receipt_days }) =>
    using(({ losses }) =>
      Effect.flatMap(DateTime.now, (now) => {
        const before = (days: typeof memory_days) => {
          const kept = Option.getOrNull(days)
          return kept === null ? null : DateTime.toDateUtc(DateTime.subtract(now, { days: kept }))
        }
        return losses.retention(project, { memory_before: before(memory_days), receipts_before: before(receipt_days) })
      })
    ),
  destroys: true,
  isConfirmed: (flags) => !erases(flags),
  run: ({ project, ...maxima }) => using(({ limits }) => limits.set(project, Record.getSomes(maxima))),
  print: (limits) => [...lines(limits), next("show-project-limits --project ID")]
})

const lines = (limits: ReadonlyArray<Limit>) => table(limits, ["limit", "value", "maximum", "default"], "")

export const limits = [showProjectLimits, setProjectLimits]
