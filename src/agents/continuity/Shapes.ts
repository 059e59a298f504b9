/**
 * The shapes of the continuity surface (spec 2.8, 4.11): what agents send, and what they are answered.
 *
 * Sizes are bytes of UTF-8 after NFC normalisation. Times are instants with offset. Ids are UUIDs of version 7.
 */
import { Schema } from "effect"
import { Id, IdempotencyKey } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { line, optionalProse, prose } from "../../wire/Text.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const atMost = <S extends Schema.Constraint>(item: S, most: number) =>
  Schema.Array(item).check(Schema.isMaxLength(most))

const Tag = Schema.String.check(
  Schema.isPattern(/^[a-z0-9][a-z0-9._:/-]{0,63}$/u, {
    expected: "1 to 64 lower-case letters, digits and ._:/- that begin with a letter or digit"
  })
)
export const Tags = atMost(Tag, 16)
export const Title = line(200)
/** Of an entry; that of a task may be empty. */
export const Body = prose(16_384)
export const TaskBody = optionalProse(16_384)
/** Of a session, a worker, a thread, an assignee. */
export const Name = line(128)
export const BlockedReason = prose(500)
export const Summary = prose(4000)
export const Steps = atMost(prose(500), 10)
const Cursor = Schema.String.check(Schema.isMaxLength(1024))

export const Kind = Schema.Literals(["note", "decision"])
export const Status = Schema.Literals(["open", "in_progress", "blocked", "done", "cancelled"])
export type Status = typeof Status.Type
export const BlockedKind = Schema.Literals(["decision", "external", "other"])
export const Outcome = Schema.Literals(["progress", "handoff", "completed", "blocked"])

export const MemoryEntry = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  body: Schema.String,
  tags: Schema.Array(Schema.String),
  active: Schema.Boolean,
  supersedes: Schema.NullOr(Schema.String),
  superseded_by: Schema.NullOr(Schema.String),
  superseded_at: Schema.NullOr(Instant),
  provenance: Schema.Struct({
    actor: Schema.String,
    role: Schema.String,
    session_ref: Schema.NullOr(Schema.String),
    task_id: Schema.NullOr(Schema.String),
    source: Schema.NullOr(Schema.String)
  }),
  created_at: Instant
})
export type MemoryEntry = typeof MemoryEntry.Type

export const MemoryAdd = Schema.Struct({
  kind: Kind,
  body: Body,
  title: Schema.optionalKey(Title),
  tags: Schema.optionalKey(Tags),
  supersedes: Schema.optionalKey(Id),
  session_ref: Schema.optionalKey(Name),
  task_id: Schema.optionalKey(Id),
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type MemoryAdd = typeof MemoryAdd.Type
export const MemoryAdded = Schema.Struct({ entry: MemoryEntry, replayed: Schema.Boolean })

export const MemoryGet = Schema.Struct({ id: Id })
export const MemoryFound = Schema.Struct({ entry: MemoryEntry })

export const MemorySearch = Schema.Struct({
  query: Schema.optionalKey(optionalProse(1000)),
  kind: Schema.optionalKey(Kind),
  tags: Schema.optionalKey(Tags),
  limit: Schema.optionalKey(between(1, 50)),
  cursor: Schema.optionalKey(Cursor)
})
export type MemorySearch = typeof MemorySearch.Type

export const MemoryHit = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  excerpt: Schema.String,
  tags: Schema.Array(Schema.String),
  created_at: Instant,
  score: Schema.optionalKey(Schema.Finite)
})
export type MemoryHit = typeof MemoryHit.Type

/** `ranked`: by relevance, no further page. `recent`: newest first, because the query was absent or of stop words only. */
export const MemoryHits = Schema.Struct({
  entries: Schema.Array(MemoryHit),
  next_cursor: Schema.optionalKey(Schema.String),
  matched: Schema.Literals(["ranked", "recent"])
})
export type MemoryHits = typeof MemoryHits.Type

export const Task = Schema.Struct({
  id: Schema.String,
  title: Schema.String,
  body: Schema.String,
  status: Status,
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  depends_on: Schema.Array(Schema.String),
  ready: Schema.Boolean,
  assignee: Schema.NullOr(Schema.String),
  claimed_at: Schema.NullOr(Instant),
  version: Schema.Int,
  blocked_reason: Schema.NullOr(Schema.String),
  blocked_kind: Schema.NullOr(BlockedKind),
  created_by: Schema.String,
  created_at: Instant,
  updated_at: Instant,
  closed_at: Schema.NullOr(Instant)
})
export type Task = typeof Task.Type

export const TaskSummary = Schema.Struct({
  id: Schema.String,
  title: Schema.String,
  status: Status,
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  ready: Schema.Boolean,
  assignee: Schema.NullOr(Schema.String),
  version: Schema.Int,
  blocked_kind: Schema.NullOr(BlockedKind),
  updated_at: Instant
})
export type TaskSummary = typeof TaskSummary.Type

const Repository = line(256).check(
  // Credentials hide in these parts of an address.
  Schema.makeFilter((name: string) => !/[@?#]/.test(name), { expected: "a name without userinfo, query or fragment" })
)
const CommitId = Schema.String.check(
  Schema.isPattern(/^([0-9a-f]{40}|[0-9a-f]{64})$/u, { expected: "a whole commit id, 40 or 64 lower-case hex digits" })
)

/** Where the code stands that the session leaves. */
export const GitCheckpoint = Schema.Struct({
  repository: Repository,
  branch: line(255),
  commit_sha: CommitId,
  base_sha: Schema.optionalKey(CommitId),
  dirty: Schema.Boolean,
  pushed: Schema.optionalKey(Schema.Boolean)
})

export const NewReceipt = Schema.Struct({
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

export const TaskCreate = Schema.Struct({
  title: Title,
  body: Schema.optionalKey(TaskBody),
  priority: Schema.optionalKey(between(0, 4)),
  tags: Schema.optionalKey(Tags),
  depends_on: Schema.optionalKey(atMost(Id, 32)),
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type TaskCreate = typeof TaskCreate.Type
export const TaskCreated = Schema.Struct({ task: Task, replayed: Schema.Boolean })

export const TaskGet = Schema.Struct({ id: Id })
const TaskLink = Schema.Struct({ id: Schema.String, title: Schema.String, status: Status })
export const TaskFound = Schema.Struct({
  task: Task,
  receipts: Schema.Array(Receipt),
  dependencies: Schema.Array(TaskLink),
  blocks: Schema.Array(TaskLink)
})
export type TaskFound = typeof TaskFound.Type

export const TaskList = Schema.Struct({
  status: Schema.optionalKey(atMost(Status, 5)),
  ready: Schema.optionalKey(Schema.Boolean),
  assignee: Schema.optionalKey(Name),
  tag: Schema.optionalKey(Tag),
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
  id: Id,
  expected_version: between(1, 2_147_483_647),
  title: Schema.optionalKey(Title),
  body: Schema.optionalKey(TaskBody),
  status: Schema.optionalKey(Status),
  priority: Schema.optionalKey(between(0, 4)),
  tags: Schema.optionalKey(Tags),
  depends_on: Schema.optionalKey(atMost(Id, 32)),
  assignee: Schema.optionalKey(Schema.NullOr(Name)),
  blocked_reason: Schema.optionalKey(BlockedReason),
  blocked_kind: Schema.optionalKey(BlockedKind),
  receipt: Schema.optionalKey(NewReceipt),
  idempotency_key: Schema.optionalKey(IdempotencyKey)
})
export type TaskUpdate = typeof TaskUpdate.Type
export const TaskUpdated = Schema.Struct({ task: Task, receipt: Schema.optionalKey(Receipt), replayed: Schema.Boolean })

export const Context = Schema.Struct({
  max_bytes: Schema.optionalKey(between(4096, 49_152))
})

export const ContextTask = Schema.Struct({
  ...TaskSummary.fields,
  excerpt: Schema.String,
  claimed_at: Schema.NullOr(Instant),
  blocked_reason: Schema.NullOr(Schema.String),
  /** In progress and untouched for 24 hours. */
  stale: Schema.Boolean
})
export type ContextTask = typeof ContextTask.Type

export const ContextReceipt = Schema.Struct({
  id: Schema.String,
  task_id: Schema.String,
  session_ref: Schema.String,
  worker: Schema.String,
  outcome: Outcome,
  summary: Schema.String,
  next_steps: Schema.Array(Schema.String),
  git_checkpoint: Schema.NullOr(GitCheckpoint),
  created_at: Instant
})
export type ContextReceipt = typeof ContextReceipt.Type

export const ContextMemory = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  excerpt: Schema.String,
  tags: Schema.Array(Schema.String),
  created_at: Instant
})

export const ContextSnapshot = Schema.Struct({
  project: Schema.Struct({ id: Schema.String, name: Schema.String }),
  generated_at: Instant,
  open_tasks: Schema.Array(ContextTask),
  recent_memory: Schema.Array(ContextMemory),
  recent_receipts: Schema.Array(ContextReceipt),
  /** How many more there are. */
  omitted: Schema.Struct({ tasks: Schema.Int, memory: Schema.Int, receipts: Schema.Int }),
  /** Of this object as JSON. */
  bytes: Schema.Int,
  truncated: Schema.Boolean
})
export type ContextSnapshot = typeof ContextSnapshot.Type
