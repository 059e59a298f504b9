/**
 * The file of a project: one JSON object a line.
 *
 *     header   {"export":"bridge-service project","project":{"id":…,"name":…},"created_at":…}
 *     rows     {"memory":{…}}  {"task":{…}}  {"dependency":{…}}  {"receipt":{…}}      in this order
 *     end      {"counts":{"memory":…,"task":…,"dependency":…,"receipt":…}}            a file without it was cut off
 *
 * A file may come from anywhere: each row has the fields of an export and no other, within the limits of the tools.
 */
import { Effect, Option, Result, Schema, Stream } from "effect"
import { isUtf8 } from "node:buffer"
import { findTokenIn, kinds as tokenKinds } from "../crypto/Tokens.ts"
import { Uuid } from "../wire/Ids.ts"
import { firstIssue } from "../wire/Issue.ts"
import { withDetails } from "../wire/Refusal.ts"
import { line } from "../wire/Text.ts"
import * as Api from "./Api.ts"
import { refuse } from "./Errors.ts"

const format = "bridge-service project"
/** More than the largest row has, however its text is escaped. */
const longestLine = 256 * 1024

const Time = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$/),
  Schema.makeFilter((time: string) => isDay(time.slice(0, 10)) && !Number.isNaN(Date.parse(time)), {
    expected: "a time since 1970"
  })
).pipe(Schema.decodeTo(Schema.DateFromString))

/** JavaScript takes a 30 February for one of March. */
const isDay = (day: string) => {
  const date = new Date(`${day}T00:00:00Z`)
  return date.getTime() >= 0 && date.toISOString().startsWith(day)
}

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
  superseded_at: maybe(Time),
  actor: Author,
  role: Author,
  session_ref: maybe(Api.Name),
  task_id: maybe(Uuid),
  source: maybe(Author),
  created_at: Time
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
  claimed_at: maybe(Time),
  version: Count,
  blocked_reason: maybe(Api.BlockedReason),
  blocked_kind: maybe(Api.BlockedKind),
  created_by: Author,
  created_at: Time,
  updated_at: Time,
  closed_at: maybe(Time)
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
  created_at: Time
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
const kinds = Object.keys(none) as ReadonlyArray<Kind>
export const countsOf = (): { -readonly [K in Kind]: number } => ({ ...none })

const Header = Schema.Struct({
  export: Schema.Literal(format),
  project: Schema.Struct({ id: Schema.String, name: Schema.String }),
  created_at: Time
})

const decoder = (schema: Schema.Codec<any, unknown>) =>
  Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })
const decoders = {
  header: decoder(Header),
  memory: decoder(Entry),
  task: decoder(Task),
  dependency: decoder(Dependency),
  receipt: decoder(Receipt),
  counts: decoder(Counts)
}

export const header = (project: { readonly id: string; readonly name: string }, created_at: Date) =>
  `${JSON.stringify({ export: format, project, created_at })}\n`
export const end = (counts: Counts) => `${JSON.stringify({ counts })}\n`

/** Undefined for a line that is no UTF-8 or too long for a row. */
export const lines = <E>(file: Stream.Stream<Uint8Array, E>): Stream.Stream<string | undefined, E> =>
  Stream.mapAccum(
    file,
    () => Buffer.alloc(0),
    (rest, chunk: Uint8Array) => {
      const found: Array<string | undefined> = []
      let bytes = Buffer.concat([rest, chunk])
      for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a)) {
        found.push(textOf(bytes.subarray(0, end)))
        bytes = bytes.subarray(end + 1)
      }
      return bytes.length > longestLine ? [Buffer.alloc(0), [...found, undefined]] : [bytes, found]
    },
    { onHalt: (rest) => (rest.length === 0 ? [] : [textOf(rest)]) }
  )

const textOf = (bytes: Buffer) => (bytes.length <= longestLine && isUtf8(bytes) ? bytes.toString("utf8") : undefined)

/** Reads line after line; whatever is wrong is refused with its number. */
export const reader = () => {
  let number = 0
  let section = 0
  let ended = false
  const counts = countsOf()
  /** Where each thing stands that may stand once. Only this grows with the file. */
  const places = new Map<string, number>()

  const invalid = (line: number, reason: string) =>
    withDetails(
      refuse("import_invalid"),
      { line, reason },
      `Line ${line} of the file is no line of an export: ${reason}; nothing was imported.`
    )
  const decoded = Effect.fnUntraced(function* (name: keyof typeof decoders, value: unknown) {
    const result = decoders[name](value)
    if (Result.isSuccess(result)) return result.success
    const [field, reason] = firstIssue(result.failure.issue)
    return yield* invalid(number, field === "" ? reason : `${field}: ${reason}`)
  })

  /** A row, or none for header, end and empty lines. */
  const read = Effect.fnUntraced(function* (text: string | undefined) {
    number += 1
    if (text?.trim() === "") return Option.none()
    const value = text === undefined ? undefined : Option.getOrUndefined(parse(text))
    if (typeof value !== "object" || value === null) return yield* invalid(number, "It is no JSON object")
    if (ended) return yield* invalid(number, "It follows the end")
    if (number === 1) {
      yield* decoded("header", value)
      return Option.none()
    }
    const [[name, content] = ["", undefined], ...more] = Object.entries(value)
    if (name === "counts" && more.length === 0) {
      const expected: Counts = yield* decoded("counts", content)
      const wrong = kinds.find((kind) => expected[kind] !== counts[kind])
      if (wrong !== undefined)
        return yield* invalid(number, `The file does not have ${expected[wrong]} rows of ${wrong}`)
      ended = true
      return Option.none()
    }
    const kind = kinds.find((kind) => kind === name)
    if (kind === undefined || more.length > 0) return yield* invalid(number, `It is none of ${kinds.join(", ")}`)
    if (kinds.indexOf(kind) < section) return yield* invalid(number, `It must stand before ${kinds[section]}`)
    section = kinds.indexOf(kind)
    const row: Row = yield* decoded(kind, content)
    const leak = findTokenIn(row)
    if (leak !== undefined) return yield* invalid(number, `${leak.field}: Contains a ${tokenKinds[leak.kind]}`)
    for (const key of keysOf(kind, row)) {
      const earlier = places.get(key)
      if (earlier !== undefined) return yield* invalid(number, `It repeats line ${earlier}`)
      places.set(key, number)
    }
    counts[kind] += 1
    return Option.some({ kind, row })
  })

  const finish = Effect.suspend(() => (ended ? Effect.void : invalid(number + 1, "The file ends before its end")))

  /** The refusal of a row that was read before. */
  const refer = (kind: Kind, row: Named, reason: string) => invalid(places.get(keysOf(kind, row)[0]!) ?? number, reason)

  return { read, finish, refer }
}

const parse = (text: string) => Result.getSuccess(Result.try(() => JSON.parse(text) as unknown))

interface Named {
  readonly id?: string
  readonly supersedes?: string | null
  readonly task_id?: string | null
  readonly depends_on?: string
  readonly session_ref?: string | null
}

/** What may stand once; the first names the row. */
const keysOf = (kind: Kind, row: Named): ReadonlyArray<string> => {
  const { depends_on, id, session_ref, supersedes, task_id } = row
  switch (kind) {
    case "memory":
      return [`memory ${id}`, ...(typeof supersedes === "string" ? [`successor of ${supersedes}`] : [])]
    case "task":
      return [`task ${id}`]
    case "dependency":
      return [`dependency ${task_id} ${depends_on}`]
    case "receipt":
      return [`receipt ${id}`, `receipt of ${task_id} ${session_ref}`]
  }
}
