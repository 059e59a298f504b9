/** Whatever is sent as text: a clear refusal or the text itself, never a failure of the service. */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { format, type TokenKind, kinds } from "../../src/crypto/Tokens.ts"
import { Agent } from "../support/McpAgent.ts"
import { Service } from "../support/Service.ts"
import { send } from "../support/Http.ts"

const place = (field: string, text: unknown): { readonly tool: string; readonly given: Record<string, unknown> } => {
  const [tool, name] = field.split(" ") as [string, string]
  const base: Record<string, Record<string, unknown>> = {
    memory_add: { kind: "note", body: "b" },
    memory_search: {},
    task_create: { title: "t" },
    task_list: {},
    git_document_get: { document_id: "x" }
  }
  return { tool, given: { ...base[tool], [name]: name === "tags" || name === "depends_on" ? [text] : text } }
}

const lines = ["memory_add title", "memory_add session_ref", "task_create title", "task_list assignee"]
const prose = ["memory_add body", "memory_search query", "task_create body"]
const others = ["memory_add tags", "memory_add idempotency_key", "memory_add supersedes", "task_create depends_on"]
const fields = [...lines, ...prose, ...others, "task_list tag", "memory_search cursor", "git_document_get document_id"]

layer(Service.layer)("text", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const perform = (a: Agent, field: string, text: unknown) => {
    const { given, tool } = place(field, text)
    return tool === "memory_add" || tool === "task_create" ? a.write(tool, given) : a.call(tool, given)
  }

  for (const field of [...lines, ...prose]) {
    for (const [name, text] of [
      ["NUL", "a\0b"],
      ["a lone surrogate", "a\ud800b"]
    ] as const) {
      it.effect(`${field} refuses ${name}`, () =>
        Effect.gen(function* () {
          const { answer, code, details } = yield* perform(yield* agent, field, text)
          assert.deepStrictEqual([answer.status, code], [200, "invalid_request"])
          assert.strictEqual(details.field, field.split(" ")[1])
        })
      )
    }
    it.effect(`${field} refuses a whole token of this service and names its kind, not the token`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const kind of Object.keys(kinds) as Array<TokenKind>) {
          const token = Redacted.value(format(kind, randomBytes(32)))
          const { code, text } = yield* perform(a, field, `see ${token}.`)
          assert.strictEqual(code, "invalid_request")
          assert.include(text, kinds[kind])
          assert.notInclude(text, token)
        }
      })
    )
    it.effect(`${field} takes a prefix of ours as ordinary text`, () =>
      Effect.gen(function* () {
        const { code } = yield* perform(yield* agent, field, "tokens begin with spt_ or sbt_")
        assert.isUndefined(code)
      })
    )
  }

  for (const field of fields) {
    it.effect(`${field} survives what is no text at all`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const value of [null, 1e308, -1, true, {}, [], [[["x"]]], { __proto__: null, constructor: 1 }]) {
          const { answer, code } = yield* perform(a, field, value)
          assert.strictEqual(answer.status, 200, answer.text)
          assert.notInclude(["internal_error"], code)
        }
      })
    )
    it.effect(`${field} survives long and strange texts`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const text of [
          "x".repeat(200_000),
          "'\"; drop table task; --",
          "%s%n${1}",
          "\u202e\u0007",
          "１２",
          "a".repeat(3000) + "/b"
        ]) {
          const { answer, code } = yield* perform(a, field, text)
          assert.strictEqual(answer.status, 200, answer.text)
          assert.notInclude(["internal_error", "bridge_persistence_error"], code)
        }
      })
    )
  }

  it.effect("limits are bytes of UTF-8 after normalisation", () =>
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

  it.effect("an unknown parameter is refused without repeating its name", () =>
    Effect.gen(function* () {
      const { code, details, text } = yield* (yield* agent).call("memory_get", { id: "x", surprise: 1 })
      assert.strictEqual(code, "invalid_request")
      assert.strictEqual(details.reason, "Unknown parameter; there are id")
      assert.notInclude(text, "surprise")
    })
  )

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
