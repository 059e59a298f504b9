/** The audit log. */
import { Effect, Option, Stream } from "effect"
import { Flag } from "effect/cli"
import { keptHeads } from "../../src/platform/audit/HeadsFile.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { watching } from "../support/terminal/progress.ts"
import { FileError } from "../support/files/SecretFiles.ts"
import { contents } from "../support/files/WholeFiles.ts"

const listAuditEvents = list("list-audit-events", {
  description: "List audit events, newest first",
  flags: {
    project: Flags.anyProject("Id or name of a project; default: all of them").pipe(Flag.optional),
    since: Flags.since.pipe(Flag.optional),
    action: Flags.action
  },
  after: Flags.uuid("after", ""),
  key: "event_id",
  most: 10_000,
  page: ({ audit, projects }, { action, project, since }, page) =>
    Effect.andThen(
      Effect.transposeOption(Option.map(project, projects.find)),
      audit.list(Option.getOrUndefined(project), page, {
        actions: action.length === 0 ? undefined : action,
        from: Option.getOrUndefined(since)
      })
    ),
  columns: ["at", "action", "outcome", "code", "count", "actor", "subject"],
  none: "There are no audit events.",
  next: () => "verify-audit-log"
})

const verifyAuditLog = command("verify-audit-log", {
  description:
    "Recompute the chains of the audit log; exit code 1 if a row was changed, removed, inserted or reordered",
  flags: {
    project: Flags.anyProject("Id or name of a project; default: all of them").pipe(Flag.optional),
    since: Flags.since.pipe(Flag.optional),
    heads: Flags.path("heads", "File with heads that somebody else kept: lines of the log, or of OTLP").pipe(
      Flag.optional
    )
  },
  run: ({ heads, project, since }) =>
    using(({ projects, verification }) =>
      Effect.andThen(
        Effect.transposeOption(Option.map(project, projects.find)),
        verification
          .verify({
            project: Option.getOrUndefined(project),
            since: Option.getOrUndefined(since),
            heads: Option.match(heads, { onNone: () => Stream.empty, onSome: (path) => keptHeads(contents(path)) })
          })
          .pipe(watching("Verified", "rows"))
      )
    ).pipe(
      // To compare nothing would look like a proof.
      Effect.filterOrFail(
        (report) => Option.isNone(heads) || report.heads + report.expired_heads > 0,
        () => new FileError({ message: "The file of --heads holds no head of these chains." })
      )
    ),
  print: ({ broken, ok, ...counts }) => [
    ...facts(counts),
    ...(ok ? ["Every row is as it was written."] : table(broken, ["scope", "problem", "seq", "at", "event_id"], "")),
    next("list-audit-events", ok ? "" : "what happened, as far as the rows still tell; see emergencies.md")
  ],
  ok: ({ ok }) => ok
})

const maintainAuditLog = command("maintain-audit-log", {
  description: "Make the partitions of the next twelve months and drop those past the retention; run it daily",
  flags: {},
  run: () => using(({ partitions }) => partitions.maintain),
  print: (maintained) => [
    ...facts(maintained),
    maintained.postponed
      ? next("maintain-audit-log", "what is left, once nobody locks the audit log; a backup does")
      : next("verify-audit-log")
  ]
})

export const audit = [listAuditEvents, verifyAuditLog, maintainAuditLog]
