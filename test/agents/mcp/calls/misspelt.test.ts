/**
 * Calls as models misspell them: another name for a parameter, a synonym for a value, a value of another type, a shortened
 * id, a field left out. Each refusal names the field, what is expected and the way out; the corrected call succeeds.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { inputSchemas } from "../../../../src/agents/mcp/ToolList.ts"
import type { JsonSchema } from "../../../../src/agents/mcp/calls/AsWritten.ts"
import { type ToolName, tools } from "../../../../src/agents/mcp/Tools.ts"
import { examplesFor } from "../../../support/agents/Examples.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { Service } from "../../../support/service/Service.ts"

type Path = ReadonlyArray<string>
type Given = Readonly<Record<string, unknown>>
interface Misspelt {
  readonly tool: ToolName
  readonly what: string
  readonly spoil: (example: any) => void
  /** The field that the refusal names. */
  readonly field: string
  /** What it says of the way out. */
  readonly says: RegExp
}

/** Names that models use for ours. */
const otherNames: Readonly<Record<string, ReadonlyArray<string>>> = {
  assignee: ["owner", "assigned_to"],
  base_sha: ["parent_sha"],
  blocked_reason: ["question"],
  body: ["content", "description"],
  branch: ["ref_name"],
  choices: ["options"],
  commit_sha: ["commit"],
  cursor: ["page", "next_cursor"],
  depends_on: ["dependencies", "blocked_by"],
  document_id: ["id"],
  expected_version: ["version"],
  id: ["uuid", "identifier"],
  in: ["sources"],
  kind: ["type"],
  kinds: ["types"],
  limit: ["max_results", "count"],
  max_bytes: ["length"],
  next_steps: ["todo"],
  order: ["sort"],
  outcome: ["result"],
  parent: ["parent_id"],
  priority: ["prio"],
  query: ["q", "search"],
  ready: ["is_ready"],
  session_ref: ["session"],
  since: ["after", "from"],
  status: ["state"],
  summary: ["message"],
  supersedes: ["replaces"],
  tag: ["label"],
  tags: ["labels"],
  task_id: ["task"],
  tasks: ["items"],
  text: ["note", "comment"],
  timeout_seconds: ["timeout"],
  title: ["name", "subject"],
  version: ["since_version"],
  worker: ["agent"],
  write_context: ["context"]
}

/** Values that models send, by parameter, and what the refusal says. */
const otherValues: Readonly<Record<string, ReadonlyArray<readonly [value: unknown, says: RegExp]>>> = {
  blocked_kind: [["question", /"decision" \| "external" \| "other"/]],
  commit_sha: [["abc1234", /whole commit id, 40 or 64/]],
  dirty: [["no", /boolean/]],
  expected_version: [
    ["latest", /integer|number/],
    [0, /between 1 and/]
  ],
  kind: [["fact", /"note" \| "decision"/]],
  limit: [
    ["many", /integer|number/],
    [0, /between 1 and/],
    [1000, /between 1 and/]
  ],
  max_bytes: [[10_000_000, /between/]],
  order: [["newest", /"priority" \| "updated"/]],
  outcome: [["success", /"progress" \| "handoff" \| "completed" \| "blocked"/]],
  priority: [
    ["high", /integer|number/],
    [9, /between 0 and 4/]
  ],
  ready: [["maybe", /boolean/]],
  since: [
    ["yesterday", /2026-11-21T12:00:00Z.*24h/],
    ["2026-11-21", /2026-11-21T12:00:00Z.*24h/]
  ],
  status: [["todo", /"open" \| "in_progress" \| "blocked" \| "done" \| "cancelled"/]],
  timeout_seconds: [[600, /between 1 and 25/]],
  title: [
    ["", /one line of text that is not blank/],
    ["one\ntwo", /one line of text/],
    ["x".repeat(201), /200 bytes/]
  ],
  verbose: [["please", /boolean/]]
}

const camel = (name: string) => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
const isId = (name: string) => ["id", "task_id", "supersedes", "document_id", "parent", "depends_on"].includes(name)

/** The object around a parameter of an example. */
const around = (example: any, path: Path) => path.slice(0, -1).reduce((object, name) => object[name], example)

const misspellings = (tool: ToolName, schema: JsonSchema, path: Path): ReadonlyArray<Misspelt> =>
  Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const here = [...path, name]
    const at = (other: string) => [...path, other].join(".")
    const set = (value: unknown) => (example: any) => {
      const isList = Array.isArray(around(example, here)[name])
      around(example, here)[name] = isList && !Array.isArray(value) ? [value] : value
    }
    const rename = (other: string) => (example: any) => {
      const object = around(example, here)
      object[other] = object[name] ?? "x"
      delete object[name]
    }
    const renamed = [...(otherNames[name] ?? []), ...(name.includes("_") ? [camel(name)] : [])]
      .filter((other) => schema.properties?.[other] === undefined)
      .map((other) => ({
        tool,
        what: `${at(other)} for ${name}`,
        spoil: rename(other),
        field: at(other),
        says: new RegExp(`\\b${name}\\b`)
      }))
    const required = (schema.required ?? []).includes(name) && name !== "write_context"
    const left = required
      ? [
          {
            tool,
            what: `without ${at(name)}`,
            spoil: (example: any) => delete around(example, here)[name],
            field: at(name),
            says: /required/
          }
        ]
      : []
    const values = (otherValues[name] ?? []).map(([value, says]) => ({
      tool,
      what: `${at(name)} as ${JSON.stringify(value).slice(0, 20)}`,
      spoil: set(value),
      field: inner.type === "array" && !Array.isArray(value) ? `${at(name)}.0` : at(name),
      says
    }))
    const shortened = isId(name)
      ? [
          {
            tool,
            what: `a shortened ${at(name)}`,
            spoil: set("0190a1b2"),
            field: inner.type === "array" ? `${at(name)}.0` : at(name),
            says: /whole id/
          }
        ]
      : []
    const nested =
      inner.properties !== undefined
        ? misspellings(tool, inner, here)
        : inner.items?.properties === undefined
          ? []
          : misspellings(tool, inner.items, [...here, "0"])
    return [...renamed, ...left, ...values, ...shortened, ...nested]
  })

const corpus = Object.entries(inputSchemas).flatMap(([tool, schema]) => misspellings(tool as ToolName, schema, []))

layer(Service.layer, { timeout: 60_000 })("a misspelt call", (it) => {
  for (const tool of Object.keys(tools) as ReadonlyArray<ToolName>) {
    const rows = corpus.filter((one) => one.tool === tool)
    it.effect(`of ${tool} names the field and the way out, and succeeds once corrected (${rows.length})`, () =>
      Effect.gen(function* () {
        const agent = yield* Agent.make(yield* Service)
        const example: Given = (yield* examplesFor(agent))[tool]
        for (const { field, says, spoil, what } of rows) {
          const wrong: Record<string, unknown> = structuredClone(example)
          // The key belongs to the corrected call, and is looked up first.
          delete wrong["idempotency_key"]
          spoil(wrong)
          const { code, details, text } = yield* agent.call(tool, wrong)
          if (field.startsWith("writeContext") || field === "context") {
            assert.strictEqual(code, "write_context_required", what)
            assert.match(text, /server_identity returns the one to copy/)
            continue
          }
          assert.strictEqual(code, "invalid_request", `${what}: ${text}`)
          assert.strictEqual(details.field, field, `${what}: ${text}`)
          assert.match(JSON.parse(text).error.message, says, what)
          // With its key, a repeated write returns the result of the first.
          const corrected = yield* agent.call(tool, example)
          assert.isUndefined(corrected.code, `${what}: ${corrected.text}`)
        }
      })
    )
  }

  it("is one of at least two hundred", () => assert.isAtLeast(corpus.length, 200))
})
