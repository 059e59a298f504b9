/** The audit log. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { next, table } from "../support/Print.ts"

const listAuditEvents = command("list-audit-events", {
  description: "List audit events, newest first",
  flags: {
    project: Flags.project.pipe(Flag.optional),
    limit: Flags.count("limit", 10_000, "Maximum number of events (default: 100)").pipe(Flag.withDefault(100))
  },
  run: ({ limit, project }) =>
    using(({ audit, projects }) =>
      Effect.andThen(
        Effect.transposeOption(Option.map(project, projects.find)),
        audit.list(Option.getOrUndefined(project), limit)
      )
    ),
  print: (events) => [
    ...table(events, ["at", "action", "outcome", "code", "count", "actor", "subject"], "There are no audit events."),
    next("list-audit-events --project ID --limit N --json")
  ]
})

export const audit = [listAuditEvents]
