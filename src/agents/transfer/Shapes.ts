/** The lines of an export. A row has every column except the project, within the limits of the tools. */
import { Effect, Schema } from "effect"
import { Uuid } from "../../wire/Ids.ts"
import { Instant } from "../../wire/Instant.ts"
import { line } from "../../wire/Text.ts"
import { Name, Tags, Title } from "../continuity/Shapes.ts"
import * as Memory from "../memory/Shapes.ts"
import * as Tasks from "../tasks/Shapes.ts"

export const format = "bridge-service project"

const Author = line(256)
const UuidOrNull = Schema.NullOr(Uuid)

const Entry = Schema.Struct({
  ...Memory.FlatEntry.fields,
  id: Uuid,
  title: Title,
  body: Memory.Body,
  tags: Tags,
  supersedes: UuidOrNull,
  superseded_by: UuidOrNull,
  actor: Author,
  role: Author,
  session_ref: Schema.NullOr(Name),
  task_id: UuidOrNull,
  source: Schema.NullOr(Author)
}).check(
  Schema.makeFilter(
    (entry) =>
      (entry.superseded_by === null) === (entry.superseded_at === null) &&
      (entry.superseded_by === null || !entry.active),
    { expected: "superseded_by and superseded_at together, and only of an entry that is not active" }
  )
)
type Entry = typeof Entry.Type

const { depends_on: _, ready: __, ...columns } = Tasks.Task.fields
const Task = Schema.Struct({
  ...columns,
  id: Uuid,
  title: Title,
  body: Tasks.Body,
  priority: Tasks.Priority,
  tags: Tags,
  assignee: Schema.NullOr(Name),
  version: Tasks.Version,
  blocked_reason: Schema.NullOr(Tasks.BlockedReason),
  parent: Schema.optionalKey(UuidOrNull),
  claimed_by: Schema.optionalKey(Schema.NullOr(Author)),
  created_by: Author,
  updated_by: Schema.optionalKey(Schema.NullOr(Author)),
  choices: Schema.optionalKey(Schema.NullOr(Tasks.Choices)),
  asked_by: Schema.optionalKey(Schema.NullOr(Author)),
  answer: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        ...Tasks.Answer.fields,
        entry_id: Uuid,
        text: Tasks.AnswerText,
        by: Tasks.Answer.fields.by.mapFields((by) => ({ ...by, id: Author, label: Schema.NullOr(line(320)) }))
      })
    )
  ),
  answered_by: Schema.optionalKey(Schema.NullOr(Author)),
  answer_entry_id: Schema.optionalKey(UuidOrNull)
}).check(
  Schema.makeFilter(
    ({ answer, answer_entry_id, blocked_kind, blocked_reason, closed_at, status }) =>
      (status === "blocked") === (blocked_kind !== null) &&
      (answer === undefined || answer === null || answer.entry_id === answer_entry_id) &&
      (status === "blocked" || blocked_reason === null) &&
      (status === "done" || status === "cancelled") === (closed_at !== null),
    {
      expected:
        "blocked_kind with status blocked, closed_at with done and cancelled, neither otherwise, and an answer with its entry"
    }
  )
)

const Dependency = Schema.Struct({ task_id: Uuid, depends_on: Uuid }).check(
  Schema.makeFilter(({ depends_on, task_id }) => depends_on !== task_id, { expected: "two different tasks" })
)
type Dependency = typeof Dependency.Type

const Receipt = Schema.Struct({
  ...Tasks.Receipt.fields,
  id: Uuid,
  task_id: Uuid,
  session_ref: Name,
  worker: Name,
  thread: Schema.NullOr(Name),
  summary: Tasks.Summary,
  next_steps: Tasks.Steps,
  pitfalls: Tasks.Steps,
  task_version_after: Tasks.Version,
  actor: Author
})
type Receipt = typeof Receipt.Type

const Note = Schema.Struct({ ...Tasks.Note.fields, id: Uuid, task_id: Uuid, text: Tasks.NoteText, actor: Author })

const Natural = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
/** `note` is absent in files of releases without notes. */
const Counts = Schema.Struct({
  memory: Natural,
  task: Natural,
  dependency: Natural,
  receipt: Natural,
  note: Natural.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0)))
})
export type Counts = typeof Counts.Type
export type Kind = keyof Counts
interface Rows {
  readonly memory: Entry
  readonly task: typeof Task.Type
  readonly dependency: Dependency
  readonly receipt: Receipt
  readonly note: typeof Note.Type
}
export type Row = Rows[Kind]
/** Consecutive rows of one kind. */
export type Batch = { readonly [K in Kind]: { readonly kind: K; readonly rows: Array<Rows[K]> } }[Kind]

/** In the order of the file: tasks before the dependencies, receipts and notes that name them. */
export const kinds = ["memory", "task", "dependency", "receipt", "note"] as const satisfies ReadonlyArray<Kind>
export const noRows = (): { -readonly [K in Kind]: number } => ({
  memory: 0,
  task: 0,
  dependency: 0,
  receipt: 0,
  note: 0
})

/** Rows per statement of an export or import. */
export const pageSize = 500

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
  note: decoder(Note),
  counts: decoder(Counts)
}
