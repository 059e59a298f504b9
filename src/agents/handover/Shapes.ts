/** The startup snapshot that `continuity_context` returns (spec 4.11): everything cut to excerpts. */
import { Schema, Struct } from "effect"
import { Instant } from "../../wire/Instant.ts"
import { between, Notice } from "../continuity/Shapes.ts"
import { MemoryExcerpt } from "../memory/Shapes.ts"
import { Receipt, Task, TaskSummary } from "../tasks/Shapes.ts"

export const SnapshotRequest = Schema.Struct({
  max_bytes: Schema.optionalKey(between(4096, 49_152))
})

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
  /** Of all tasks. `decisions`: those of `blocked` that wait for a person. `closed`: done or cancelled. */
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
  /** How many items of each kind the project has beyond these. */
  omitted: Schema.Struct({ tasks: Schema.Int, memory: Schema.Int, receipts: Schema.Int }),
  /** The size of this object as JSON. */
  bytes: Schema.Int,
  truncated: Schema.Boolean
})
export type StartupSnapshot = typeof StartupSnapshot.Type
