/** The audit log. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/list.ts"

const listAuditEvents = list("list-audit-events", {
  description: "List audit events, newest first",
  flags: { project: Flags.project.pipe(Flag.optional) },
  after: Flags.uuid("after", ""),
  key: "event_id",
  most: 10_000,
  page: ({ audit, projects }, { project }, page) =>
    Effect.andThen(
      Effect.transposeOption(Option.map(project, projects.find)),
      audit.list(Option.getOrUndefined(project), page)
    ),
  columns: ["at", "action", "outcome", "code", "count", "actor", "subject"],
  none: "There are no audit events.",
  next: () => "list-audit-events --project ID --limit N --json"
})

export const audit = [listAuditEvents]
