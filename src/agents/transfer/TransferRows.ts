/** What stands in a line of a project's file: every column of its row but the project, within the limits of the tools. */
import { Schema } from "effect"
import { Uuid } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { line } from "../../wire/Text.ts"
import * as Api from "../continuity/Shapes.ts"

export const format = "bridge-service project"

const maybe = Schema.NullOr
const Author = line(256)
const Count = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 }))

const Entry = Schema.Struct({
  id: Uuid,
  kind: Api.Kind,
  title: Api.Title,
  body: Api.Body,
  tags: Api.Tags,
  active: Schema.Boolean,
  supersedes: maybe(Uuid),
  superseded_by: maybe(Uuid),
  superseded_at: maybe(Instant),
  actor: Author,
  role: Author,
  session_ref: maybe(Api.Name),
  task_id: maybe(Uuid),
  source: maybe(Author),
  created_at: Instant
}).check(
  Schema.makeFilter(
    (entry) =>
      (entry.superseded_by === null) === (entry.superseded_at === null) &&
      (entry.superseded_by === null || !entry.active),
    { expected: "superseded_by and superseded_at together, and only of an entry that is not active" }
  )
)
type Entry = typeof Entry.Type

const Task = Schema.Struct({
  id: Uuid,
  title: Api.Title,
  body: Api.TaskBody,
  status: Api.Status,
  priority: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
  tags: Api.Tags,
  assignee: maybe(Api.Name),
  claimed_at: maybe(Instant),
  version: Count,
  blocked_reason: maybe(Api.BlockedReason),
  blocked_kind: maybe(Api.BlockedKind),
  created_by: Author,
  created_at: Instant,
  updated_at: Instant,
  closed_at: maybe(Instant)
}).check(
  Schema.makeFilter(
    ({ blocked_kind, blocked_reason, closed_at, status }) =>
      (status === "blocked") === (blocked_kind !== null) &&
      (status === "blocked" || blocked_reason === null) &&
      (status === "done" || status === "cancelled") === (closed_at !== null),
    { expected: "blocked_kind with status blocked, closed_at with done and cancelled, and neither otherwise" }
  )
)

const Dependency = Schema.Struct({ task_id: Uuid, depends_on: Uuid }).check(
  Schema.makeFilter(({ depends_on, task_id }) => depends_on !== task_id, { expected: "two different tasks" })
)
type Dependency = typeof Dependency.Type

const Receipt = Schema.Struct({
  id: Uuid,
  task_id: Uuid,
  session_ref: Api.Name,
  worker: Api.Name,
  thread: maybe(Api.Name),
  outcome: Api.Outcome,
  summary: Api.Summary,
  next_steps: Api.Steps,
  pitfalls: Api.Steps,
  git_checkpoint: maybe(Api.GitCheckpoint),
  task_version_after: Count,
  task_status_after: Api.Status,
  actor: Author,
  created_at: Instant
})
type Receipt = typeof Receipt.Type

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Counts = Schema.Struct({ memory: Natural, task: Natural, dependency: Natural, receipt: Natural })
export type Counts = typeof Counts.Type
export type Kind = keyof Counts
interface Rows {
  readonly memory: Entry
  readonly task: typeof Task.Type
  readonly dependency: Dependency
  readonly receipt: Receipt
}
export type Row = Rows[Kind]
/** Rows of one kind that follow each other. */
export type Batch = { readonly [K in Kind]: { readonly kind: K; readonly rows: Array<Rows[K]> } }[Kind]

const none: Counts = { memory: 0, task: 0, dependency: 0, receipt: 0 }
export const kinds = Object.keys(none) as ReadonlyArray<Kind>
export const countsOf = (): { -readonly [K in Kind]: number } => ({ ...none })

const Header = Schema.Struct({
  export: Schema.Literal(format),
  project: Schema.Struct({ id: Schema.String, name: Schema.String }),
  created_at: Instant
})

const decoder = (schema: Schema.Codec<any, unknown>) =>
  Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })
export const decoders = {
  header: decoder(Header),
  memory: decoder(Entry),
  task: decoder(Task),
  dependency: decoder(Dependency),
  receipt: decoder(Receipt),
  counts: decoder(Counts)
}
