/** The startup snapshot that `continuity_context` returns (spec 4.11): everything cut to excerpts. */
import { Schema, Struct } from "effect"
import { Instant } from "../../wire/Instant.ts"
import { atMost, between, Cursor, ItemId, Name, Notice, Tag } from "../continuity/Shapes.ts"
import { MemoryExcerpt } from "../memory/Shapes.ts"
import { Receipt, Repository, Status, Task, TaskSummary } from "../tasks/Shapes.ts"

export const SnapshotRequest = Schema.Struct({
  max_bytes: Schema.optionalKey(between(4096, 49_152)),
  /** Of tasks, their receipts and memory. */
  tag: Schema.optionalKey(Tag),
  /** Leaves out the tasks and receipts that belong to other repositories, as `git_checkpoint` names them. */
  repository: Schema.optionalKey(Repository)
})
export type SnapshotRequest = typeof SnapshotRequest.Type

const SnapshotTask = Schema.Struct({
  ...TaskSummary.fields,
  excerpt: Schema.String,
  claimed_at: Task.fields.claimed_at,
  blocked_reason: Task.fields.blocked_reason,
  choices: Task.fields.choices,
  /** What a person decided, its text cut to an excerpt. */
  answer: Task.fields.answer,
  /** In progress, and not updated for 24 hours. */
  stale: Schema.Boolean
})
export type SnapshotTask = typeof SnapshotTask.Type

const SnapshotReceipt = Receipt.mapFields(
  Struct.pick([
    "id",
    "task_id",
    "session_ref",
    "worker",
    "outcome",
    "summary",
    "next_steps",
    "pitfalls",
    "git_checkpoint",
    "actor",
    "created_at"
  ])
)
export type SnapshotReceipt = typeof SnapshotReceipt.Type

export type SnapshotEntry = typeof MemoryExcerpt.Type

export const StartupSnapshot = Schema.Struct({
  notice: Notice,
  project: Schema.Struct({ id: Schema.String, name: Schema.String }),
  generated_at: Instant,
  /** Of all tasks, whatever the filters. `decisions`: those of `blocked` that wait for a person. `closed`: done or cancelled. */
  counts: Schema.Struct({
    in_progress: Schema.Int,
    open: Schema.Int,
    blocked: Schema.Int,
    decisions: Schema.Int,
    closed: Schema.Int
  }),
  open_tasks: Schema.Array(SnapshotTask),
  recent_memory: Schema.Array(MemoryExcerpt),
  recent_receipts: Schema.Array(SnapshotReceipt),
  /** How many items of each kind the project has beyond these, whatever the filters. */
  omitted: Schema.Struct({ tasks: Schema.Int, memory: Schema.Int, receipts: Schema.Int }),
  /** The size of this object as JSON. */
  bytes: Schema.Int,
  truncated: Schema.Boolean
})
export type StartupSnapshot = typeof StartupSnapshot.Type

/** A time, or how long ago: `90m`, `24h`, `7d`, `2w`. */
export const Since = Schema.String.check(
  Schema.makeFilter((text: string) => agoOf(text) !== undefined || Schema.is(Instant.from)(text), {
    expected: "a time such as 2026-11-21T12:00:00Z, or how long ago, such as 90m, 24h, 7d or 2w"
  })
).annotate({ description: "RFC 3339 time, or how long ago: 90m, 24h, 7d, 2w" })

const units = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const agoOf = (text: string) => {
  const [, count, unit] = /^(\d{1,4})([mhdw])$/.exec(text) ?? []
  return unit === undefined ? undefined : Number(count) * units[unit as keyof typeof units]
}
/** The instant that a `Since` names. */
export const instantOf = (since: string, now: Date): Date => {
  const ago = agoOf(since)
  return ago === undefined ? new Date(since) : new Date(Math.max(0, now.getTime() - ago))
}

export const happenedKinds = ["task", "receipt", "decision", "note", "task_note"] as const
const HappenedKind = Schema.Literals(happenedKinds)
export type HappenedKind = typeof HappenedKind.Type

/** `title` of a receipt is its outcome; `text` of a task its status, of anything else its beginning. */
export const Happened = Schema.Struct({
  kind: HappenedKind,
  id: Schema.String,
  at: Instant,
  title: Schema.String,
  text: Schema.String,
  actor: Schema.String,
  /** The task that it is about, as it is now. */
  task: Schema.NullOr(Schema.Struct({ id: Schema.String, title: Schema.String, status: Status, version: Schema.Int }))
})

export const ActivityRequest = Schema.Struct({
  since: Since,
  kinds: Schema.optionalKey(atMost(HappenedKind, happenedKinds.length).check(Schema.isMinLength(1))),
  limit: Schema.optionalKey(between(1, 100)),
  cursor: Schema.optionalKey(Cursor)
})
export type ActivityRequest = typeof ActivityRequest.Type
export const ActivityPage = Schema.Struct({
  /** The instant that `since` named. */
  since: Instant,
  activity: Schema.Array(Happened),
  next_cursor: Schema.optionalKey(Schema.String)
})
export type ActivityPage = typeof ActivityPage.Type

export const ReceiptRequest = Schema.Struct({
  task_id: Schema.optionalKey(ItemId),
  worker: Schema.optionalKey(Name),
  since: Schema.optionalKey(Since),
  limit: Schema.optionalKey(between(1, 50)),
  cursor: Schema.optionalKey(Cursor)
})
export type ReceiptRequest = typeof ReceiptRequest.Type
export const ReceiptPage = Schema.Struct({
  receipts: Schema.Array(Receipt),
  next_cursor: Schema.optionalKey(Schema.String)
})
export type ReceiptPage = typeof ReceiptPage.Type
