/** Inputs and outputs of the task tools, receipts included (spec 2.8, 3.5, 4.11). */
import { Schema, Struct } from "effect"
import { IdempotencyKey } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { line, optionalProse, prose } from "../../wire/Text.ts"
import { atMost, between, Cursor, ItemId, largestInt, Name, Tag, Tags, Title, Verbose } from "../continuity/Shapes.ts"

export const Body = optionalProse(16_384)
export const Priority = between(0, 4)
export const Version = between(1, largestInt)
export const BlockedReason = prose(500)
export const Summary = prose(4000)
export const Steps = atMost(prose(500), 10)
export const AnswerText = prose(4000)
/** The answers that a question offers. An answer names one by its full text, so no two are alike. */
export const Choices = Schema.Array(line(200)).check(Schema.isMinLength(2), Schema.isMaxLength(6), Schema.isUnique())

export const Status = Schema.Literals(["open", "in_progress", "blocked", "done", "cancelled"])
export type Status = typeof Status.Type
const BlockedKind = Schema.Literals(["decision", "external", "other"])
const Outcome = Schema.Literals(["progress", "handoff", "completed", "blocked"])

/** What a person decided: carried by the task until its next receipt. */
export const Answer = Schema.Struct({
  /** The entry of memory that keeps answer and question. */
  entry_id: Schema.String,
  text: Schema.String,
  by: Schema.Struct({
    kind: Schema.Literals(["token", "passkey", "operator"]),
    id: Schema.String,
    /** For display only: whoever made the token chose it. */
    label: Schema.NullOr(Schema.String)
  }),
  at: Instant,
  /** The credential that asked also answered: it need not have been a person. */
  same_credential: Schema.Boolean
})
export type Answer = typeof Answer.Type

export const Task = Schema.Struct({
  id: Schema.String,
  title: Schema.String,
  body: Schema.String,
  status: Status,
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  depends_on: Schema.Array(Schema.String),
  /** The task that it is part of. Absent in answers that earlier releases remembered. */
  parent: Schema.optionalKey(Schema.NullOr(Schema.String)),
  ready: Schema.Boolean,
  assignee: Schema.NullOr(Schema.String),
  claimed_at: Schema.NullOr(Instant),
  /** Whose claim it is: the credential. This field and the six after `blocked_kind` are absent in older remembered answers. */
  claimed_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
  version: Schema.Int,
  blocked_reason: Schema.NullOr(Schema.String),
  blocked_kind: Schema.NullOr(BlockedKind),
  /** The answers to choose from. This field and the next four are absent in answers that earlier releases remembered. */
  choices: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.String))),
  asked_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
  answer: Schema.optionalKey(Schema.NullOr(Answer)),
  /** Who answered last, and the entry that keeps the answer: they stay when `answer` has gone. */
  answered_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
  answer_entry_id: Schema.optionalKey(Schema.NullOr(Schema.String)),
  created_by: Schema.String,
  /** Wrote this version. Unknown for versions that earlier releases wrote, and absent in answers that they remembered. */
  updated_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
  created_at: Instant,
  updated_at: Instant,
  closed_at: Schema.NullOr(Instant)
})
export type Task = typeof Task.Type

export const TaskSummary = Task.mapFields(
  Struct.pick([
    "id",
    "title",
    "status",
    "priority",
    "tags",
    "ready",
    "assignee",
    "version",
    "blocked_kind",
    "updated_by",
    "updated_at"
  ])
)

/** What a write returns of a task: the rest only if its caller asks for it. */
export const TaskBrief = Schema.Struct({
  ...Struct.map(Task.fields, Schema.optionalKey),
  ...Struct.pick(Task.fields, ["id", "version", "status", "assignee"])
})
export const briefTask = (task: Task, verbose: boolean | undefined): typeof TaskBrief.Type =>
  verbose === true ? task : Struct.pick(task, ["id", "version", "status", "assignee"])

export const TaskLink = Task.mapFields(Struct.pick(["id", "title", "status"]))

/** A name or URL without a password. The user `git` of a remote is no secret. */
export const Repository = line(256).check(
  Schema.makeFilter((name: string) => /^((ssh:\/\/)?git@[^@?#:/]+[:/])?[^@?#]+$/.test(name), {
    expected: "a name or a remote without a password, a query or a fragment; the only user name is git"
  })
)
const CommitId = Schema.String.check(
  Schema.isPattern(/^([0-9a-f]{40}|[0-9a-f]{64})$/u, { expected: "a whole commit id, 40 or 64 lower-case hex digits" })
).annotate({ description: "40 or 64 hex digits" })

/** The state of the code when the session stops. */
const GitCheckpoint = Schema.Struct({
  repository: Repository,
  branch: line(255),
  commit_sha: CommitId,
  base_sha: Schema.optionalKey(CommitId),
  dirty: Schema.Boolean,
  pushed: Schema.optionalKey(Schema.Boolean)
})

const NewReceipt = Schema.Struct({
  session_ref: Name,
  worker: Name,
  thread: Schema.optionalKey(Name),
  outcome: Outcome,
  summary: Summary,
  next_steps: Schema.optionalKey(Steps),
  pitfalls: Schema.optionalKey(Steps),
  git_checkpoint: Schema.optionalKey(GitCheckpoint)
})
export type NewReceipt = typeof NewReceipt.Type

export const Receipt = Schema.Struct({
  id: Schema.String,
  task_id: Schema.String,
  session_ref: Schema.String,
  worker: Schema.String,
  thread: Schema.NullOr(Schema.String),
  outcome: Outcome,
  summary: Schema.String,
  next_steps: Schema.Array(Schema.String),
  pitfalls: Schema.Array(Schema.String),
  git_checkpoint: Schema.NullOr(GitCheckpoint),
  task_version_after: Schema.Int,
  task_status_after: Status,
  actor: Schema.String,
  created_at: Instant
})
export type Receipt = typeof Receipt.Type

export const ReceiptBrief = Schema.Struct({
  ...Struct.map(Receipt.fields, Schema.optionalKey),
  ...Struct.pick(Receipt.fields, ["id", "created_at"])
})
export const briefReceipt = (receipt: Receipt, verbose: boolean | undefined): typeof ReceiptBrief.Type =>
  verbose === true ? receipt : Struct.pick(receipt, ["id", "created_at"])

const newTask = {
  title: Title,
  body: Schema.optionalKey(Body),
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  depends_on: Schema.optionalKey(atMost(ItemId, 32)),
  parent: Schema.optionalKey(ItemId)
}
export const TaskCreate = Schema.Struct({
  ...newTask,
  idempotency_key: Schema.optionalKey(IdempotencyKey),
  verbose: Schema.optionalKey(Verbose)
})
export type TaskCreate = typeof TaskCreate.Type
export const TaskCreated = Schema.Struct({ task: TaskBrief, replayed: Schema.Boolean })

/** The `ref` of an item of the same call, or the id of a task. */
const Ref = line(64)
export const TaskCreateMany = Schema.Struct({
  tasks: atMost(
    Schema.Struct({
      ref: Schema.optionalKey(Ref),
      ...newTask,
      depends_on: Schema.optionalKey(atMost(Ref, 32)),
      parent: Schema.optionalKey(Ref)
    }),
    50
  ).check(Schema.isMinLength(1)),
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type TaskCreateMany = typeof TaskCreateMany.Type
/** In the order of the request. */
const CreatedTasks = Schema.Array(
  Schema.Struct({
    ref: Schema.optionalKey(Schema.String),
    ...Struct.pick(Task.fields, ["id", "version", "status", "assignee"])
  })
)
export const TasksAdded = Schema.Struct({ tasks: CreatedTasks })
export const TasksCreated = Schema.Struct({ tasks: CreatedTasks, replayed: Schema.Boolean })

export const NoteText = prose(4000)
export const Note = Schema.Struct({
  id: Schema.String,
  task_id: Schema.String,
  text: Schema.String,
  actor: Schema.String,
  created_at: Instant
})
export type Note = typeof Note.Type

export const TaskGet = Schema.Struct({ id: ItemId })
export const TaskFound = Schema.Struct({
  task: Task,
  receipts: Schema.Array(Receipt),
  notes: Schema.Array(Note),
  dependencies: Schema.Array(TaskLink),
  blocks: Schema.Array(TaskLink)
})
export type TaskFound = typeof TaskFound.Type

export const TaskList = Schema.Struct({
  status: Schema.optionalKey(atMost(Status, 5)),
  ready: Schema.optionalKey(Schema.Boolean),
  assignee: Schema.optionalKey(Name),
  tag: Schema.optionalKey(Tag),
  parent: Schema.optionalKey(ItemId),
  limit: Schema.optionalKey(between(1, 100)),
  cursor: Schema.optionalKey(Cursor),
  order: Schema.optionalKey(Schema.Literals(["priority", "updated"]))
})
export type TaskList = typeof TaskList.Type
export const TaskPage = Schema.Struct({
  tasks: Schema.Array(TaskSummary),
  next_cursor: Schema.optionalKey(Schema.String)
})
export type TaskPage = typeof TaskPage.Type

export const TaskUpdate = Schema.Struct({
  id: ItemId,
  expected_version: Version,
  title: Schema.optionalKey(Title),
  body: Schema.optionalKey(Body),
  status: Schema.optionalKey(Status),
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  depends_on: Schema.optionalKey(atMost(ItemId, 32)),
  assignee: Schema.optionalKey(Schema.NullOr(Name)),
  blocked_reason: Schema.optionalKey(BlockedReason),
  blocked_kind: Schema.optionalKey(BlockedKind),
  choices: Schema.optionalKey(Choices),
  receipt: Schema.optionalKey(NewReceipt),
  idempotency_key: Schema.optionalKey(IdempotencyKey),
  verbose: Schema.optionalKey(Verbose)
})
export type TaskUpdate = typeof TaskUpdate.Type

/** The result of an update: the task, and the receipt if the update carried one. */
export const TaskChanged = Schema.Struct({ task: Task, receipt: Schema.optionalKey(Receipt) })
export type TaskChanged = typeof TaskChanged.Type
export const TaskUpdated = Schema.Struct({
  task: TaskBrief,
  receipt: Schema.optionalKey(ReceiptBrief),
  replayed: Schema.Boolean
})

/** What a person sends: one of the choices, or a text of their own. */
export const TaskAnswer = Schema.Struct({
  id: ItemId,
  expected_version: Version,
  text: AnswerText,
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type TaskAnswer = typeof TaskAnswer.Type
/** The task after its answer. */
export const TaskAnswered = Schema.Struct({
  id: Schema.String,
  status: Status,
  version: Schema.Int,
  assignee: Schema.NullOr(Schema.String),
  entry_id: Schema.String
})
export type TaskAnswered = typeof TaskAnswered.Type

/** With version 0 it returns at once. */
export const TaskWait = Schema.Struct({
  id: ItemId,
  version: between(0, largestInt),
  timeout_seconds: Schema.optionalKey(between(1, 25))
})
export type TaskWait = typeof TaskWait.Type
/** `changed`: the task has a higher version than the one asked for. */
export const TaskWaited = Schema.Struct({ task: Task, changed: Schema.Boolean })
export type TaskWaited = typeof TaskWaited.Type

export const TaskClaim = Schema.Struct({
  id: ItemId,
  expected_version: Version,
  assignee: Schema.optionalKey(Name),
  /** Takes the task from whoever holds it. */
  takeover: Schema.optionalKey(Schema.Struct({ reason: prose(500) })),
  idempotency_key: Schema.optionalKey(IdempotencyKey),
  verbose: Schema.optionalKey(Verbose)
})
export type TaskClaim = typeof TaskClaim.Type
export const TaskClaimed = Schema.Struct({ task: TaskBrief, replayed: Schema.Boolean })

export const TaskNote = Schema.Struct({
  id: ItemId,
  text: NoteText,
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type TaskNote = typeof TaskNote.Type
export const TaskNoted = Schema.Struct({
  note: Note.mapFields(Struct.pick(["id", "task_id", "created_at"])),
  replayed: Schema.Boolean
})
