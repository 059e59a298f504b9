/** Export and import of a project: nothing is lost, and an invalid file changes nothing. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { randomBytes, randomUUID } from "node:crypto"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { forAll } from "../../support/run/Property.ts"
import { Service } from "../../support/service/Service.ts"

const id = (n: number) => `01900000-0000-7000-8000-${String(n).padStart(12, "0")}`
const at = "2026-11-21T12:00:00.123Z"
const header = { export: "bridge-service project", project: { id: id(0), name: "Elsewhere" }, created_at: at }
const memory = {
  id: id(1),
  kind: "note",
  title: "T",
  body: "pelican",
  tags: [],
  active: true,
  supersedes: null,
  superseded_by: null,
  superseded_at: null,
  actor: "project_token:x",
  role: "contributor",
  session_ref: null,
  task_id: null,
  source: null,
  created_at: at
}
const gone = { ...memory, active: false, superseded_at: at }
const task = {
  id: id(2),
  title: "T",
  body: "",
  status: "open",
  priority: 2,
  tags: ["a"],
  assignee: null,
  claimed_at: null,
  version: 3,
  blocked_reason: null,
  blocked_kind: null,
  created_by: "x",
  created_at: at,
  updated_at: at,
  closed_at: null
}
const dependency = { task_id: id(3), depends_on: id(2) }
const receipt = {
  id: id(4),
  task_id: id(2),
  session_ref: "s",
  worker: "w",
  thread: null,
  outcome: "handoff",
  summary: "x",
  next_steps: ["y"],
  pitfalls: [],
  git_checkpoint: null,
  task_version_after: 2,
  task_status_after: "open",
  actor: "project_token:x",
  created_at: at
}
const remark = { id: id(5), task_id: id(2), text: "x", actor: "project_token:x", created_at: at }
const rows = [{ memory }, { task }, { task: { ...task, id: id(3) } }, { dependency }, { receipt }]
const end = { counts: { memory: 1, task: 2, dependency: 1, receipt: 1, note: 0 } }
const whole = [header, ...rows, end]

/** The valid file with one line replaced; lines count from 1. */
const instead = (number: number, line: unknown) => whole.map((kept, index) => (index === number - 1 ? line : kept))
const text = (lines: ReadonlyArray<unknown>) =>
  lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("")

const twoDependencies = { counts: { ...end.counts, dependency: 2 } }
const oneNote = { counts: { ...end.counts, note: 1 } }
const token = Redacted.value(format("spt", randomBytes(32)))

/** What is wrong with the file, the file, and the line that the refusal names; with the reason where several would fit. */
const broken: ReadonlyArray<readonly [string, string | Buffer, number, reason?: string]> = [
  ["no header", text(rows), 1],
  ["a header of another format", text(instead(1, { ...header, export: "other" })), 1],
  ["a line that is not JSON", text(instead(3, '{"task":')), 3, "It is not a JSON object"],
  [
    "a line that is not an object",
    text(instead(3, "[]")),
    3,
    "It must be one of memory, task, dependency, receipt, note"
  ],
  [
    "a line with two members",
    text(instead(3, { task, memory })),
    3,
    "It must be one of memory, task, dependency, receipt, note"
  ],
  [
    "a line of an unknown kind",
    text(instead(3, { project: task })),
    3,
    "It must be one of memory, task, dependency, receipt, note"
  ],
  [
    "bytes that are not UTF-8",
    Buffer.from(text(instead(2, { memory: { ...memory, body: "a\xff" } })), "latin1"),
    2,
    "It is not a JSON object"
  ],
  ["a raw NUL", text(instead(2, JSON.stringify({ memory }).replace("pelican", "peli\0can"))), 2],
  ["an escaped NUL", text(instead(2, { memory: { ...memory, body: "a\0b" } })), 2],
  ["a lone surrogate", text(instead(2, { memory: { ...memory, body: "a\ud800b" } })), 2],
  [
    "a line longer than any row",
    text(instead(2, { memory: { ...memory, body: "x".repeat(300_000) } })),
    2,
    "It is not a JSON object"
  ],
  ["100,000 nested arrays", text(instead(2, `{"memory":${"[".repeat(1e5)}${"]".repeat(1e5)}}`)), 2],
  ["a body over its limit", text(instead(2, { memory: { ...memory, body: "x".repeat(16_385) } })), 2],
  ["a title over its limit", text(instead(3, { task: { ...task, title: "ü".repeat(101) } })), 3],
  ["too many tags", text(instead(2, { memory: { ...memory, tags: Array.from({ length: 17 }, String) } })), 2],
  ["too many steps", text(instead(6, { receipt: { ...receipt, next_steps: Array(11).fill("x") } })), 6],
  [
    "a token of this service",
    text(instead(6, { receipt: { ...receipt, summary: `see ${token}` } })),
    6,
    "summary contains a"
  ],
  ["an unknown field", text(instead(3, { task: { ...task, surprise: 1 } })), 3, "Unknown parameter"],
  ["a row that names its project", text(instead(3, { task: { ...task, project_id: id(0) } })), 3],
  ["__proto__", text(instead(3, JSON.stringify({ task }).replace('"body"', '"__proto__":{},"body"'))), 3],
  ["a missing field", text(instead(3, { task: { id: id(2) } })), 3, "title: Is required"],
  ["an id that is not a UUID", text(instead(3, { task: { ...task, id: "x" } })), 3],
  ["a huge version", text(instead(3, { task: { ...task, version: 1e300 } })), 3],
  ["a date that does not exist", text(instead(3, { task: { ...task, created_at: "2026-02-30T00:00:00Z" } })), 3],
  ["a time before 1970", text(instead(3, { task: { ...task, created_at: "0000-01-01T00:00:00Z" } })), 3],
  [
    "a closed task without closed_at",
    text(instead(3, { task: { ...task, status: "done" } })),
    3,
    "closed_at with done and cancelled"
  ],
  ["a blocked task without kind", text(instead(3, { task: { ...task, status: "blocked" } })), 3],
  [
    "an active entry with a successor",
    text(instead(2, { memory: { ...memory, superseded_by: id(1) } })),
    2,
    "only of an entry that is not active"
  ],
  ["a repeated id", text([header, rows[0], rows[0], ...rows.slice(1), end]), 3, "It repeats line 2"],
  ["two successors of one entry", successors(), 4, "It repeats line 3"],
  [
    "two receipts of one session",
    text([...whole.slice(0, 6), { receipt: { ...receipt, id: id(5) } }, end]),
    7,
    "It repeats line 6"
  ],
  [
    "a task after a dependency",
    text([header, rows[1], rows[2], rows[3], { task: { ...task, id: id(6) } }]),
    5,
    "It must come before the rows of dependency"
  ],
  [
    "an entry that supersedes an unknown one",
    text(instead(2, { memory: { ...memory, supersedes: id(9) } })),
    2,
    "a row that neither the file nor the project has"
  ],
  ["an entry superseded by an unknown one", text(instead(2, { memory: { ...gone, superseded_by: id(9) } })), 2],
  ["an entry about an unknown task", text(instead(2, { memory: { ...memory, task_id: id(9) } })), 2],
  [
    "a dependency on an unknown task",
    text(instead(5, { dependency: { ...dependency, depends_on: id(9) } })),
    5,
    "The project has no such task"
  ],
  ["a receipt of an unknown task", text(instead(6, { receipt: { ...receipt, task_id: id(9) } })), 6],
  [
    "a note on an unknown task",
    text([...whole.slice(0, 6), { note: { ...remark, task_id: id(9) } }, oneNote]),
    7,
    "The project has no such task"
  ],
  [
    "a repeated note",
    text([...whole.slice(0, 6), { note: remark }, { note: remark }, oneNote]),
    8,
    "It repeats line 7"
  ],
  [
    "a note before a receipt",
    text([...whole.slice(0, 5), { note: remark }, rows[4], oneNote]),
    7,
    "It must come before the rows of note"
  ],
  [
    "a task that depends on itself",
    text(instead(5, { dependency: { task_id: id(2), depends_on: id(2) } })),
    5,
    "two different tasks"
  ],
  [
    "tasks that depend on each other",
    text([...whole.slice(0, 5), { dependency: { task_id: id(2), depends_on: id(3) } }, rows[4], twoDependencies]),
    5,
    "The task would wait for itself"
  ],
  ["a file without counts", text(whole.slice(0, -1)), 7, "The file ends without the line with the counts"],
  [
    "wrong counts",
    text(instead(7, { counts: { ...end.counts, task: 3 } })),
    7,
    "The file does not have 3 rows of task"
  ],
  [
    "a row after the counts",
    text([...whole, { receipt: { ...receipt, id: id(5), session_ref: "other" } }]),
    8,
    "It follows the line with the counts"
  ],
  ["a truncated last line", text(whole).slice(0, -10), 7],
  ["an empty file", "", 1]
]

function successors() {
  const old = { ...gone, superseded_by: id(7) }
  const successor = (n: number) => ({ memory: { ...memory, id: id(n), supersedes: id(1) } })
  return text([header, { memory: old }, successor(7), successor(8), { counts: { ...end.counts, memory: 3 } }])
}

const tables = ["memory_entry", "memory_posting", "memory_count", "task", "task_dependency", "receipt", "task_note"]

layer(Service.layer)("transfer", (it) => {
  const project = Effect.flatMap(Service, ({ services }) => Context.get(services, Projects).create("Project"))
  const load = Effect.fnUntraced(function* (project_id: string, file: string | Buffer, piece = 1000) {
    const { services } = yield* Service
    const bytes = Buffer.from(file)
    const pieces = Array.from({ length: Math.ceil(bytes.length / piece) }, (_, n) =>
      bytes.subarray(n * piece, (n + 1) * piece)
    )
    return yield* Context.get(services, Transfer).load(project_id, Stream.fromIterable(pieces))
  })
  const save = Effect.fnUntraced(function* (project_id: string) {
    const { services } = yield* Service
    let written = ""
    const write = (text: string) => Effect.sync(() => void (written += text))
    yield* Context.get(services, Transfer).save(project_id, write)
    return written
  })
  const rowsOf = (project_id: string) =>
    SqlClient.SqlClient.use((sql) =>
      Effect.forEach(
        tables,
        (table) => sql`
          select to_jsonb(t) - 'project_id' as row
            from ${sql.literal(table)} t
           where project_id = ${project_id}::uuid
             and to_jsonb(t) ->> 'active' is distinct from '0'
           order by to_jsonb(t)::text`
      )
    )
  const nothing = tables.map(() => [])

  it.effect("a valid file is imported, and importing it again changes nothing", () =>
    Effect.gen(function* () {
      const { project_id } = yield* project
      assert.deepStrictEqual(yield* load(project_id, text(whole)), end.counts)
      const imports = SqlClient.SqlClient.use(
        (sql) => sql`
          select 1 from audit_event where project_id = ${project_id}::uuid and action = 'project.imported'`
      )
      assert.lengthOf(yield* imports, 1)
      const before = yield* rowsOf(project_id)
      assert.deepStrictEqual(yield* load(project_id, text(whole)), {
        memory: 0,
        task: 0,
        dependency: 0,
        receipt: 0,
        note: 0
      })
      assert.deepStrictEqual(yield* rowsOf(project_id), before)
      assert.lengthOf(yield* imports, 1)
    })
  )

  it.effect("notes are imported, and a file of a release without notes is complete", () =>
    Effect.gen(function* () {
      const { project_id } = yield* project
      const { note: _, ...counts } = end.counts
      assert.deepStrictEqual(yield* load(project_id, text([...whole.slice(0, 6), { counts }])), end.counts)
      const usage = SqlClient.SqlClient.use(
        (sql) => sql<{ readonly bytes: number; readonly receipts: number }>`
          select stored_bytes::int as bytes, receipts::int from project_usage where project_id = ${project_id}::uuid`
      )
      const [before] = yield* usage
      const noted = yield* load(project_id, text([...whole.slice(0, 6), { note: remark }, oneNote]))
      assert.deepStrictEqual(noted, { memory: 0, task: 0, dependency: 0, receipt: 0, note: 1 })
      assert.deepStrictEqual(yield* usage, [{ bytes: before!.bytes + 512 + remark.text.length, receipts: 1 }])
      assert.include(yield* save(project_id), '"note"')
    })
  )

  it.effect("rows that the project already has stay unchanged, including the dependencies of a task", () =>
    Effect.gen(function* () {
      const { project_id } = yield* project
      const alone = [header, rows[1], rows[2], { counts: { memory: 0, task: 2, dependency: 0, receipt: 0, note: 0 } }]
      yield* load(project_id, text(alone))
      const changed = instead(3, { task: { ...task, title: "Another title" } })
      assert.deepStrictEqual(yield* load(project_id, text(changed)), {
        memory: 1,
        task: 0,
        dependency: 0,
        receipt: 1,
        note: 0
      })
      const exported = yield* save(project_id)
      assert.notInclude(exported, "Another title")
      assert.notInclude(exported, '"dependency": {')
    })
  )

  for (const [name, file, line, reason = ""] of broken) {
    it.effect(`${name}: the refusal names the line, and nothing is imported`, () =>
      Effect.gen(function* () {
        const { project_id } = yield* project
        const refusal = yield* Effect.flip(load(project_id, file))
        assert.deepStrictEqual([refusal._tag, refusal.details?.["line"]], ["import_invalid", line], refusal.message)
        assert.include(refusal.message, `Line ${line} `)
        assert.include(refusal.message, reason)
        assert.notInclude(refusal.message, "pelican")
        assert.notInclude(refusal.message, token)
        assert.deepStrictEqual(yield* rowsOf(project_id), nothing)
      })
    )
  }

  const note = fc.record({ body: fc.string({ unit: "binary", minLength: 1, maxLength: 60 }), old: fc.nat(20) })
  const change = fc.record({
    task: fc.nat(20),
    status: fc.constantFrom("open", "in_progress", "blocked", "done", "cancelled"),
    summary: fc.string({ unit: "grapheme", maxLength: 40 }),
    waits: fc.nat(20)
  })

  it.effect(
    "an export that is imported elsewhere and exported again is identical, with the same search index",
    () =>
      forAll(
        fc.tuple(
          fc.array(note, { maxLength: 8 }),
          fc.array(change, { maxLength: 8 }),
          fc.integer({ min: 1, max: 900 })
        ),
        ([notes, changes, piece]) =>
          Effect.gen(function* () {
            const agent = yield* Agent.make(yield* Service)
            const entries: Array<string> = []
            for (const { body, old } of notes) {
              const given = entries[old] === undefined ? {} : { supersedes: entries[old] }
              const { output } = yield* agent.write("memory_add", { kind: "note", body, ...given })
              if (output !== undefined) entries.push(output.entry.id)
            }
            const tasks: Array<any> = []
            for (const { status, summary, task, waits } of changes) {
              const depends_on = tasks[waits] === undefined ? [] : [tasks[waits].id]
              tasks.push(yield* agent.task(`${tasks.length}`, { depends_on }))
              const receipt = { session_ref: randomUUID(), worker: "w", outcome: "progress", summary }
              const { output } = yield* agent.update(tasks[task] ?? tasks[0], { status, receipt })
              if (output !== undefined) tasks[tasks[task] === undefined ? 0 : task] = output.task
            }
            const { project_id } = yield* project
            const first = yield* save(agent.project_id)
            yield* load(project_id, first, piece)
            const withoutHeader = (file: string) => file.slice(file.indexOf("\n"))
            assert.strictEqual(withoutHeader(yield* save(project_id)), withoutHeader(first))
            assert.deepStrictEqual(yield* rowsOf(project_id), yield* rowsOf(agent.project_id))
          }),
        { numRuns: 10 }
      ),
    60_000
  )
})
