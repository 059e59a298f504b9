/** Invalid values for every parameter, and a failure of every statement: a clear error that reveals no internals. */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { format } from "../../../../src/platform/crypto/Tokens.ts"
import { lists } from "../../../../src/agents/mcp/ToolList.ts"
import { isWaiting, type ToolName, tools } from "../../../../src/agents/mcp/Tools.ts"
import { examplesFor } from "../../../support/agents/Examples.ts"
import { faults, faultyDatabase } from "../../../support/service/Faults.ts"
import { type Answer, send } from "../../../support/network/Http.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { instance, Service } from "../../../support/service/Service.ts"

type Json = any
type Path = ReadonlyArray<string | number>

/** The paths of all scalar values in a schema. Of a list it follows the first item. */
const leaves = (schema: Json, path: Path = []): ReadonlyArray<Path> => {
  const { anyOf, items, properties } = schema
  if (anyOf !== undefined) return leaves(anyOf[0], path)
  if (properties !== undefined) {
    return Object.entries(properties).flatMap(([name, inner]) => leaves(inner, [...path, name]))
  }
  return items === undefined ? [path] : leaves(items, [...path, 0])
}

const withLeaf = (value: Json, [first, ...rest]: Path, leaf: unknown): Json => {
  if (first === undefined) return leaf
  if (typeof first === "number") return [withLeaf(value?.[first], rest, leaf)]
  return { ...value, [first]: withLeaf(value?.[first], rest, leaf) }
}

const token = Redacted.value(format("spt", randomBytes(32)))
/** As JSON text, because JavaScript cannot hold some of these values. */
const hostile = {
  NUL: '"canary\\u0000"',
  "a lone surrogate": '"canary\\ud800"',
  "a whole token of this service": JSON.stringify(`canary ${token}`),
  __proto__: '{"__proto__":{"canary":true}}',
  "a constructor": '{"constructor":{"prototype":{"canary":true}}}',
  "a number that overflows": "1e400",
  "a huge number": "-1e300",
  "an integer beyond 64 bits": "123456789012345678901234567890",
  "a list in a list": '[["canary"]]',
  "a text of 300,000 characters": JSON.stringify("canary".repeat(50_000))
}

/** Words of exceptions, SQL and file paths. None of them occurs in a sentence of an error. */
const internals =
  /canary|Error:|Exception|\bat \w+ \(|select |insert |update \w+ set|relation|column|constraint|syntax|duplicate key|postgres|sqlstate|\/work|\/home|\/tmp|\/dev\/shm|node_modules|\.ts\b|pg_/i

layer(Service.layer, { excludeTestServices: true })("every tool", (it) => {
  const agentAt = (url?: string) =>
    Effect.map(
      Effect.flatMap(Service, (service) => Agent.make(service)),
      (agent) => (url === undefined ? agent : agent.at({ url }))
    )
  const rowsOf = ({ project_id }: Agent) =>
    SqlClient.SqlClient.use((sql) =>
      Effect.forEach(
        ["memory_entry", "task", "task_dependency", "receipt", "idempotency_record"],
        (table) => sql`select to_jsonb(t) as row from ${sql.literal(table)} t where project_id = ${project_id}::uuid`
      )
    )
  /** Sends the arguments with `"@"` replaced by a text of JSON. */
  const raw = ({ token: bearer, url }: Agent, name: string, given: unknown, text: string) => {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } }
    return send(`${url}/mcp`, {
      bearer,
      headers: { accept: "application/json, text/event-stream", "content-type": "application/json" },
      body: JSON.stringify(message).replace('"@"', () => text)
    })
  }
  const errorOf = ({ status, text }: Answer) => {
    assert.strictEqual(status, 200, text.slice(0, 500))
    const { result } = JSON.parse(/^data: (.*)$/m.exec(text)![1]!)
    assert.isTrue(result.isError, text.slice(0, 500))
    assert.notProperty(result, "structuredContent")
    return JSON.parse(result.content[0].text).error
  }

  for (const { inputSchema, name } of lists.contributor) {
    const parameters = leaves(inputSchema).filter((path) => path.length > 0)

    it.effect(
      `${name} refuses an invalid value of any parameter, names the parameter and does not repeat the value`,
      () =>
        Effect.gen(function* () {
          const agent = yield* agentAt()
          const { [name as ToolName]: example } = yield* examplesFor(agent)
          const before = yield* rowsOf(agent)
          for (const path of parameters) {
            for (const [what, text] of Object.entries(hostile)) {
              // A call that waits comes in a small body.
              if (text.length > 16_384 && isWaiting(tools[name as ToolName])) continue
              const error = errorOf(yield* raw(agent, name, withLeaf(example, path, "@"), text))
              const where = `${what} as ${path.join(".")}: ${JSON.stringify(error)}`
              assert.notInclude(["internal_error", "bridge_persistence_error"], error.code, where)
              assert.notMatch(JSON.stringify(error), internals, where)
              assert.notInclude(JSON.stringify(error), token)
              if (error.code === "invalid_request") {
                const field: string = error.details.field
                assert.isTrue(path.join(".") === field || path.join(".").startsWith(`${field}.`), where)
                assert.isTrue(error.message.startsWith(`${field}: `), where)
              }
            }
            const deep = yield* raw(agent, name, withLeaf(example, path, "@"), "[".repeat(1e5) + "]".repeat(1e5))
            assert.deepStrictEqual([deep.status, deep.body.error.code], [400, -32_700])
          }
          // The SDK drops a parameter named `__proto__`.
          for (const surprise of ["constructor", "canary"]) {
            const given = JSON.stringify(example).replace("{", '{"@":1,').replace(",}", "}")
            const error = errorOf(yield* raw(agent, name, "@", given.replace("@", surprise)))
            assert.deepStrictEqual([error.code, error.details.field], ["invalid_request", surprise])
            assert.notMatch(JSON.stringify(error).replaceAll(surprise, ""), internals)
          }
          assert.notProperty({}, "canary")
          assert.deepStrictEqual(yield* rowsOf(agent), before)
          const { code } = yield* agent.call(name, example)
          assert.isUndefined(code)
        })
    )
  }

  for (const { name } of lists.contributor) {
    it.effect(`no failure of a statement of ${name} reveals exception text, SQL, a path or a secret`, () =>
      Effect.gen(function* () {
        let corrupted = 0
        const { fail, heal, layer } = faultyDatabase((statement) =>
          corrupted > 0 && --corrupted === 0 ? "select canary from canary_table" : statement
        )
        const { url } = yield* instance({ SERVICE_LOG_LEVEL: "Fatal" }, layer)
        const agent = yield* agentAt(url)
        const { [name as ToolName]: example } = yield* examplesFor(agent)
        const failed = (answer: Answer) => {
          assert.notMatch(answer.text, internals)
          assert.notInclude(answer.text, agent.token)
          if (answer.status !== 200) return assert.include([500, 503], answer.status)
          const result = answer.body.result
          if (result.isError !== true) return
          const { code, message } = JSON.parse(result.content[0].text).error
          if (code === "bridge_persistence_error") assert.include(message, "with the same idempotency_key")
          assert.include(
            // The last two occur when the ROLLBACK of a refused change fails.
            ["internal_error", "bridge_persistence_error", "stale_version", "memory_already_superseded"],
            code,
            answer.text
          )
        }
        const keyed = (attempt: string) =>
          "idempotency_key" in example ? { ...example, idempotency_key: attempt } : example
        for (const how of [...faults, "corrupted"] as const) {
          for (let nth = 1, struck = true; struck; nth += 1) {
            if (how === "corrupted") corrupted = nth
            else yield* fail(how, nth)
            const { answer } = yield* agent.call(name, keyed(`${how} ${nth}`.replaceAll(" ", "-")))
            struck = how === "corrupted" ? corrupted === 0 : yield* heal
            corrupted = 0
            if (struck) failed(answer)
            assert.isBelow(nth, 30)
          }
        }
      })
    )
  }
})
