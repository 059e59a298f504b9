/**
 * Hostile text in parameters is either refused with a clear reason or stored unchanged; it never makes the service
 * fail.
 */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect, Redacted, Result, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { MemoryAdd, MemorySearch } from "../../src/agents/memory/Shapes.ts"
import { TaskAnswer, TaskClaim, TaskCreate, TaskNote, TaskUpdate } from "../../src/agents/tasks/Shapes.ts"
import { format, type TokenKind, kinds } from "../../src/platform/crypto/Tokens.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { Service } from "../support/service/Service.ts"
import { send } from "../support/network/Http.ts"
import { allRows } from "../support/database/Rows.ts"
import { planted } from "../support/secrets/Planted.ts"

const lines = ["memory_add title", "memory_add session_ref", "task_create title", "task_list assignee"]
const secrets = planted(new Date(0))
const prose = ["memory_add body", "memory_search query", "task_create body"]

const task = { id: "018f0000-0000-7000-8000-000000000001", expected_version: 1 }
const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "Half." }
const checkpoint = { repository: "acme/shop", branch: "main", commit_sha: "a".repeat(40), dirty: false }
const note = { kind: "note", body: "b" }
type Tool = Schema.Codec<any, unknown>
/** The input of a tool with a text in one of its fields, and the bytes that the field may have. */
const bounded: ReadonlyArray<readonly [field: string, tool: Tool, given: (text: string) => object, bytes: number]> = [
  ["memory_add body", MemoryAdd, (body) => ({ ...note, body }), 16_384],
  ["memory_add title", MemoryAdd, (title) => ({ ...note, title }), 200],
  ["memory_add session_ref", MemoryAdd, (session_ref) => ({ ...note, session_ref }), 128],
  ["memory_add tags", MemoryAdd, (tag) => ({ ...note, tags: [tag] }), 64],
  ["memory_search query", MemorySearch, (query) => ({ query }), 1000],
  ["task_create title", TaskCreate, (title) => ({ title }), 200],
  ["task_create body", TaskCreate, (body) => ({ title: "t", body }), 16_384],
  ["task_update assignee", TaskUpdate, (assignee) => ({ ...task, assignee }), 128],
  ["task_update blocked_reason", TaskUpdate, (blocked_reason) => ({ ...task, blocked_reason }), 500],
  ["task_update choices", TaskUpdate, (choice) => ({ ...task, choices: [choice, "other"] }), 200],
  ["a receipt's worker", TaskUpdate, (worker) => ({ ...task, receipt: { ...receipt, worker } }), 128],
  ["a receipt's thread", TaskUpdate, (thread) => ({ ...task, receipt: { ...receipt, thread } }), 128],
  ["a receipt's summary", TaskUpdate, (summary) => ({ ...task, receipt: { ...receipt, summary } }), 4000],
  ["a receipt's next_steps", TaskUpdate, (step) => ({ ...task, receipt: { ...receipt, next_steps: [step] } }), 500],
  ["a receipt's pitfalls", TaskUpdate, (pitfall) => ({ ...task, receipt: { ...receipt, pitfalls: [pitfall] } }), 500],
  [
    "a checkpoint's branch",
    TaskUpdate,
    (branch) => ({ ...task, receipt: { ...receipt, git_checkpoint: { ...checkpoint, branch } } }),
    255
  ],
  ["task_answer text", TaskAnswer, (text) => ({ ...task, text }), 4000],
  ["task_claim assignee", TaskClaim, (assignee) => ({ ...task, assignee }), 128],
  ["task_claim reason", TaskClaim, (reason) => ({ ...task, takeover: { reason } }), 500],
  ["task_note text", TaskNote, (text) => ({ id: task.id, text }), 4000]
]
plain.each(bounded)("%s may have so many bytes, not characters", (_, tool, given, bytes) => {
  const isTaken = (text: string) => Result.isSuccess(Schema.decodeUnknownResult(tool)(given(text)))
  const text = "ü".repeat(bytes / 2) + "x".repeat(bytes % 2)
  assert.deepStrictEqual([isTaken(text), isTaken(`${text}x`)], [true, false])
})

layer(Service.layer)("text", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const perform = (a: Agent, field: string, text: string) => {
    const [tool, name] = field.split(" ") as [string, string]
    if (tool === "memory_add") return a.write(tool, { kind: "note", body: "b", [name]: text })
    return tool === "task_create" ? a.write(tool, { title: "t", [name]: text }) : a.call(tool, { [name]: text })
  }

  for (const field of [...lines, ...prose]) {
    it.effect(`${field} refuses a whole token of this service and names its kind, not the token`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const kind of (Object.keys(kinds) as Array<TokenKind>).filter((one) => one !== "sci")) {
          const token = Redacted.value(format(kind, randomBytes(32)))
          const { code, text } = yield* perform(a, field, `see ${token}.`)
          assert.strictEqual(code, "secret_detected")
          assert.include(text, kinds[kind])
          assert.notInclude(text, token)
        }
      })
    )
    it.effect(`${field} accepts the prefix of a token as ordinary text`, () =>
      Effect.gen(function* () {
        const { code } = yield* perform(yield* agent, field, "tokens begin with spt_ or sbt_")
        assert.isUndefined(code)
      })
    )
  }

  it.effect("a secret of any kind is refused by its kind, and is nowhere in the database", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (const { kind, secret, text } of secrets) {
        const { code, details, text: answer } = yield* perform(a, "memory_add body", text)
        assert.deepStrictEqual([code, details], ["secret_detected", { field: "body", kind }], text)
        assert.notInclude(answer, secret)
      }
      const dump = JSON.stringify(yield* allRows)
      for (const { secret } of secrets) assert.notInclude(dump, JSON.stringify(secret).slice(1, -1))
    })
  )

  it.effect("a secret that two fields hold together is refused", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { secret } = secrets.find(({ kind }) => kind === "npm_token")!
      const halves = { title: secret.slice(0, 20), body: secret.slice(20) }
      const { code, details } = yield* a.write("memory_add", { kind: "note", ...halves })
      assert.deepStrictEqual([code, details], ["secret_detected", { field: "", kind: "npm_token" }])
    })
  )

  it.effect("limits count bytes of UTF-8 after normalisation", () =>
    Effect.gen(function* () {
      const a = yield* agent
      assert.strictEqual(
        (yield* a.write("memory_add", { kind: "note", body: "ä".repeat(8193) })).code,
        "invalid_request"
      )
      const decomposed = "a\u0308".repeat(8192)
      assert.strictEqual((yield* a.note(decomposed)).body, "ä".repeat(8192))
    })
  )

  for (const [name, field] of [
    ["surprise", "surprise"],
    ["sk-live-4eC39HqLyjWDarjtT1zdp7dc", "arguments"],
    ["\u001b[31mred", "arguments"]
  ] as const) {
    it.effect(`an unknown parameter is refused with what is known, and ${JSON.stringify(name)} as ${field}`, () =>
      Effect.gen(function* () {
        const { code, details, text } = yield* (yield* agent).call("memory_get", { id: "x", [name]: 1 })
        assert.strictEqual(code, "invalid_request")
        assert.deepStrictEqual([details.field, details.reason], [field, "Unknown parameter; known: id"])
        if (field === "arguments") assert.notInclude(text, name.slice(-8))
      })
    )
  }

  const raw = (a: Agent, body: string) =>
    send(`${a.url}/mcp`, {
      bearer: a.token,
      headers: { accept: "application/json, text/event-stream", "content-type": "application/json" },
      body
    })
  const legacy = (args: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_get","arguments":${args}}}`

  it.effect("100,000 nested arrays are a parse error", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const deep = "[".repeat(100_000) + "]".repeat(100_000)
      for (const body of [deep, legacy(`{"id":${deep}}`)]) {
        const answer = yield* raw(a, body)
        assert.deepStrictEqual([answer.status, answer.body.error.code], [400, -32_700])
      }
    })
  )

  for (const args of [
    '{"__proto__":{"id":"x"}}',
    '{"id":"x","__proto__":{"polluted":true}}',
    '{"id":1e400}',
    '{"id":"x","constructor":{"prototype":{"polluted":true}}}'
  ]) {
    it.effect(`arguments ${args} are refused`, () =>
      Effect.gen(function* () {
        const answer = yield* raw(yield* agent, legacy(args))
        assert.strictEqual(answer.status, 200, answer.text)
        assert.match(answer.text, /invalid_request|memory_not_found/)
        assert.notProperty({}, "polluted")
      })
    )
  }
})
