/**
 * A project's memory, tasks and receipts as one file, and back: nobody is locked in.
 *
 *     header   {"export":"bridge-service project","project":{"id":…,"name":…},"created_at":…}
 *     rows     {"memory":{…}}  {"task":{…}}  {"dependency":{…}}  {"receipt":{…}}      one a line, in this order
 *
 * Ids are kept, so that an import may be repeated and a file imported into another project or service. What the project has
 * already stays as it is.
 */
import { Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../audit/Audit.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database } from "../database/Database.ts"
import { longPersistence } from "../database/Persistence.ts"
import { withDetails } from "../wire/Refusal.ts"
import { BlockedKind, GitCheckpoint, Kind, Outcome, Status } from "./Api.ts"
import { type ContinuityRefusal, refuse } from "./Errors.ts"
import { textOf } from "./Memory.ts"
import * as MemoryStore from "./MemoryStore.ts"
import * as Store from "./TransferStore.ts"

export type Counts = Readonly<Record<Store.Kind, number>>
type Lost = ContinuityRefusal<"bridge_persistence_error">

export class Transfer extends Context.Service<
  Transfer,
  {
    /** Hands the file to `write` piece by piece, from one snapshot; `progress` after each piece. */
    readonly save: <E>(
      project_id: string,
      write: (text: string) => Effect.Effect<void, E>,
      progress: (counts: Counts) => Effect.Effect<void>
    ) => Effect.Effect<Counts, E | Lost | ContinuityRefusal<"project_not_found">>
    /** All or nothing. Answers how many rows were new. */
    readonly load: <E>(
      project_id: string,
      file: Stream.Stream<Uint8Array, E>,
      progress: (counts: Counts) => Effect.Effect<void>
    ) => Effect.Effect<Counts, E | Lost | ContinuityRefusal<"project_not_found" | "import_invalid">>
  }
>()("service/continuity/Transfer") {
  static readonly layer = Layer.effect(
    Transfer,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock

      const save = Effect.fn("Transfer.save")(function* <E>(
        project_id: string,
        write: (text: string) => Effect.Effect<void, E>,
        progress: (counts: Counts) => Effect.Effect<void>
      ) {
        const created_at = yield* clock.now
        const work = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const store = Store.make(sql)
          yield* store.snapshot
          const project = yield* store.findProject(project_id)
          if (Option.isNone(project)) return yield* refuse("project_not_found")
          yield* write(`${encodeHeader({ export: format, project: project.value, created_at })}\n`)
          const counts = { ...none }
          for (const kind of Store.kinds) {
            let after = ""
            do {
              const page = yield* store.page(project_id, kind, after, pageSize)
              after = page.length === pageSize ? page.at(-1)!.key : ""
              counts[kind] += page.length
              if (page.length > 0) yield* write(page.map(({ line }) => `${line}\n`).join(""))
              yield* progress(counts)
            } while (after !== "")
          }
          return counts
        })
        return yield* dedicated(SqlClient.SqlClient.use((sql) => sql.withTransaction(work))).pipe(longPersistence)
      })

      const load = Effect.fn("Transfer.load")(function* <E>(
        project_id: string,
        file: Stream.Stream<Uint8Array, E>,
        progress: (counts: Counts) => Effect.Effect<void>
      ) {
        const now = yield* clock.now
        const work = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const store = Store.make(sql)
          const memory = MemoryStore.make(sql)
          if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
          yield* store.deferReferences
          const counts = { ...none }
          const fresh = new Set<string>()

          const add = Effect.fnUntraced(function* (kind: Store.Kind, rows: ReadonlyArray<Row>) {
            // The dependencies of a task that was here already are those that it has here.
            const wanted = kind === "dependency" ? rows.filter((row) => fresh.has((row as Dependency).task_id)) : rows
            const added = yield* store.add(project_id, kind, JSON.stringify(wanted))
            counts[kind] += added.length
            const keys = new Set(added.map(({ key }) => key))
            if (kind === "task") for (const key of keys) fresh.add(key)
            if (kind === "memory") {
              for (const entry of rows as ReadonlyArray<Entry>) {
                if (entry.active && keys.has(entry.id)) yield* memory.post(project_id, entry.id, textOf(entry))
              }
            }
          })

          let number = 0
          let waiting: { kind: Store.Kind; rows: Array<Row> } | undefined
          const flush = Effect.suspend(() => {
            const batch = waiting
            waiting = undefined
            return batch === undefined ? Effect.void : Effect.andThen(add(batch.kind, batch.rows), progress(counts))
          })
          const take = Effect.fnUntraced(function* (line: string) {
            number += 1
            if (number === 1) {
              if (Option.isNone(decodeHeader(line))) return yield* invalid(number)
              return
            }
            if (line === "") return
            const item = Option.getOrUndefined(decodeLine(line))
            const kind = Store.kinds.find((kind) => item !== undefined && kind in item)
            const row = kind === undefined ? undefined : (item as Readonly<Record<Store.Kind, Row>>)[kind]
            if (kind === undefined || row === undefined) return yield* invalid(number)
            if (waiting !== undefined && (waiting.kind !== kind || waiting.rows.length >= pageSize)) yield* flush
            waiting ??= { kind, rows: [] }
            waiting.rows.push(kind === "memory" ? { ...row, source: (row as Entry).source ?? "import" } : row)
          })
          yield* Stream.runForEach(file.pipe(Stream.decodeText, Stream.splitLines), take)
          if (number === 0) return yield* invalid(1)
          yield* flush
          const added = Object.values(counts).some((rows) => rows > 0)
          if (added) yield* store.audited(project_id, counts, yield* traceAt(now))
          return counts
        })
        return yield* dedicated(SqlClient.SqlClient.use((sql) => sql.withTransaction(work))).pipe(longPersistence)
      })

      return { save, load }
    })
  )
}

const format = "bridge-service project"
const pageSize = 500
const none = { memory: 0, task: 0, dependency: 0, receipt: 0 }

const invalid = (line: number) =>
  withDetails(
    refuse("import_invalid"),
    { line },
    `Line ${line} of the file is no line of an export; nothing was imported.`
  )

const Header = Schema.fromJsonString(
  Schema.Struct({
    export: Schema.Literal(format),
    project: Schema.Struct({ id: Schema.String, name: Schema.String }),
    created_at: Schema.DateFromString
  })
)
const encodeHeader = Schema.encodeSync(Header)
const decodeHeader = Schema.decodeOption(Header)

const Id = Schema.String.check(Schema.isUUID())
const Time = Schema.String.check(Schema.makeFilter((time: string) => !Number.isNaN(Date.parse(time))))
const Texts = Schema.Array(Schema.String)
const Text = Schema.NonEmptyString
const maybe = Schema.NullOr

const Entry = Schema.Struct({
  id: Id,
  kind: Kind,
  title: Text,
  body: Text,
  tags: Texts,
  active: Schema.Boolean,
  supersedes: maybe(Id),
  superseded_by: maybe(Id),
  superseded_at: maybe(Time),
  actor: Text,
  role: Text,
  session_ref: maybe(Text),
  task_id: maybe(Id),
  source: maybe(Text),
  created_at: Time
})
type Entry = typeof Entry.Type

const Task = Schema.Struct({
  id: Id,
  title: Text,
  body: Schema.String,
  status: Status,
  priority: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
  tags: Texts,
  assignee: maybe(Text),
  claimed_at: maybe(Time),
  version: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })),
  blocked_reason: maybe(Text),
  blocked_kind: maybe(BlockedKind),
  created_by: Text,
  created_at: Time,
  updated_at: Time,
  closed_at: maybe(Time)
})

const Dependency = Schema.Struct({ task_id: Id, depends_on: Id })
type Dependency = typeof Dependency.Type

const Receipt = Schema.Struct({
  id: Id,
  task_id: Id,
  session_ref: Text,
  worker: Text,
  thread: maybe(Text),
  outcome: Outcome,
  summary: Text,
  next_steps: Texts,
  pitfalls: Texts,
  git_checkpoint: maybe(GitCheckpoint),
  task_version_after: Schema.Int,
  task_status_after: Status,
  actor: Text,
  created_at: Time
})

type Row = Entry | typeof Task.Type | Dependency | typeof Receipt.Type

const Line = Schema.fromJsonString(
  Schema.Union([
    Schema.Struct({ memory: Entry }),
    Schema.Struct({ task: Task }),
    Schema.Struct({ dependency: Dependency }),
    Schema.Struct({ receipt: Receipt })
  ])
)
const decodeLine = Schema.decodeOption(Line)
