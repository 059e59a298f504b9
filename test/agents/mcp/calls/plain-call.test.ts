/** Calls that skip the SDK are answered as the SDK answers them, byte for byte (decisions.md, Calls that skip the SDK). */
import { assert, it } from "@effect/vitest"
import { Context, Effect } from "effect"
import { Projects } from "../../../../src/operator/projects/Projects.ts"
import { plainCall } from "../../../../src/agents/mcp/calls/PlainCall.ts"
import { type ToolName, tools } from "../../../../src/agents/mcp/Tools.ts"
import { Shortcuts } from "../../../../src/platform/edge/compiled/Compiled.ts"
import { examplesFor } from "../../../support/agents/Examples.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { exchange } from "../../../support/network/Raw.ts"
import { TestDatabase } from "../../../support/database/TestDatabase.ts"
import { instance } from "../../../support/service/Service.ts"

const revision = "2026-07-28"
const keys = {
  protocolVersion: "io.modelcontextprotocol/protocolVersion",
  clientCapabilities: "io.modelcontextprotocol/clientCapabilities",
  clientInfo: "io.modelcontextprotocol/clientInfo"
}
const envelope = { [keys.protocolVersion]: revision, [keys.clientCapabilities]: {} }

type Headers = Readonly<Record<string, string>>
const headersFor = (name: string): Headers => ({
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  "mcp-protocol-version": revision,
  "mcp-method": "tools/call",
  "mcp-name": name
})

const messageFor = (name: string, given: unknown, _meta: object = envelope) => ({
  jsonrpc: "2.0",
  id: 7,
  method: "tools/call",
  params: { name, arguments: given, _meta }
})

const post = ({ token, url }: Agent, headers: Headers, body: string) => {
  const sent = { host: "localhost", connection: "close", authorization: `Bearer ${token}`, ...headers }
  const lines = Object.entries({ ...sent, "content-length": String(Buffer.byteLength(body)) })
  const head = `POST /mcp HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`
  return exchange(url, head + body)
}

/** What differs between two calls with the same outcome: ids, hashes and cursors. */
const masked = (text: string) =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<id>")
    .replaceAll(/[\w-]{40,}/g, "<code>")

/** An agent with the same rows at a service that asks the SDK, and at one that does not. */
const bothWays = Effect.forEach([false, true], (shortcuts) =>
  Effect.gen(function* () {
    const on = yield* Effect.provideService(instance(), Shortcuts, shortcuts)
    const agent = yield* Agent.make(on)
    return { agent, examples: yield* examplesFor(agent), projects: Context.get(on.services, Projects) }
  })
)

const assertSame = Effect.fnUntraced(function* (
  [sdk, plain]: ReadonlyArray<Agent>,
  what: string,
  headers: Headers,
  bodyOf: (agent: Agent) => string
) {
  const expected = masked(yield* post(sdk!, headers, bodyOf(sdk!)))
  assert.strictEqual(masked(yield* post(plain!, headers, bodyOf(plain!))), expected, what)
  return expected
})

it.effect("the success and the refusals of every tool are the same", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const [sdk, plain] = yield* bothWays
      const agents = [sdk!.agent, plain!.agent]
      for (const name of Object.keys(tools) as ReadonlyArray<ToolName>) {
        const example = (agent: Agent) => (agent === sdk!.agent ? sdk! : plain!).examples[name]
        const call = (given: (agent: Agent) => unknown) => (agent: Agent) =>
          JSON.stringify(messageFor(name, given(agent)))
        assert.isDefined(plainCall(headersFor(name), messageFor(name, {}), "contributor"), name)
        const refused = {
          "an unknown parameter": (agent: Agent) => ({ ...example(agent), more: 1 }),
          "a wrong type": (agent: Agent) =>
            Object.fromEntries(
              Object.entries(example(agent)).map(([key, value]) => [key, key === "write_context" ? value : { value }])
            ),
          "no arguments": () => undefined,
          "no write_context": (agent: Agent) => ({ ...example(agent), write_context: undefined })
        }
        for (const [how, given] of Object.entries(refused)) {
          yield* assertSame(agents, `${name} with ${how}`, headersFor(name), call(given))
        }
        const answer = yield* assertSame(agents, name, headersFor(name), call(example))
        assert.notInclude(answer, '"isError"', name)
      }
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)

const name = "memory_get"
const usual = messageFor(name, { id: "x" })
const headers = headersFor(name)

/** Messages near the usual one: what is wrong or unusual, whether it is plain, and the headers that differ. */
const messages: ReadonlyArray<readonly [what: string, isPlain: boolean, message: unknown, headers?: Headers]> = [
  ["a usual call", true, usual],
  ["an id that is text", true, { ...usual, id: "a" }],
  ["an empty id", true, { ...usual, id: "" }],
  [
    "a client that names itself",
    true,
    messageFor(name, {}, { ...envelope, [keys.clientInfo]: { name: "x", version: "1" } })
  ],
  ["capabilities", true, messageFor(name, {}, { ...envelope, [keys.clientCapabilities]: { elicitation: {} } })],
  ["a number that is no integer", false, { ...usual, id: 1.5 }],
  ["no id", false, { ...usual, id: undefined }],
  ["an id that is null", false, { ...usual, id: null }],
  ["another member", false, { ...usual, more: 1 }],
  ["another version of JSON-RPC", false, { ...usual, jsonrpc: "1.0" }],
  ["another method", false, { ...usual, method: "tools/list" }],
  ["a batch", false, [usual]],
  ["an empty batch", false, []],
  ["text", false, "x"],
  ["null", false, null],
  ["no params", false, { ...usual, params: undefined }],
  ["another parameter", false, { ...usual, params: { ...usual.params, more: 1 } }],
  ["a task", false, { ...usual, params: { ...usual.params, task: {} } }],
  ["answers to questions", false, { ...usual, params: { ...usual.params, inputResponses: {} } }],
  ["arguments that are a list", false, messageFor(name, [])],
  ["arguments that are text", false, messageFor(name, "x")],
  ["arguments that are null", false, messageFor(name, null)],
  ["an unknown tool", false, messageFor("no_such_tool", {}), { "mcp-name": "no_such_tool" }],
  ["a tool of every object", false, messageFor("constructor", {}), { "mcp-name": "constructor" }],
  ["no envelope", false, { ...usual, params: { name, arguments: {} } }],
  ["half an envelope", false, messageFor(name, {}, { [keys.protocolVersion]: revision })],
  ["a later revision", false, messageFor(name, {}, { ...envelope, [keys.protocolVersion]: "2027-01-01" })],
  ["an earlier revision", false, messageFor(name, {}, { ...envelope, [keys.protocolVersion]: "2025-11-25" })],
  ["wrong capabilities", false, messageFor(name, {}, { ...envelope, [keys.clientCapabilities]: 1 })],
  ["a wrong name of the client", false, messageFor(name, {}, { ...envelope, [keys.clientInfo]: { name: 1 } })],
  ["a progress token", false, messageFor(name, {}, { ...envelope, progressToken: 1 })],
  ["a trace", false, messageFor(name, {}, { ...envelope, traceparent: "x" })],
  ["the header of another revision", false, usual, { "mcp-protocol-version": "2025-11-25" }],
  ["no header of a revision", false, usual, { "mcp-protocol-version": "" }],
  ["the header of another method", false, usual, { "mcp-method": "tools/list" }],
  ["the header of another tool", false, usual, { "mcp-name": "memory_add" }],
  ["an encoded name", false, usual, { "mcp-name": `=?base64?${Buffer.from(name).toString("base64")}?=` }],
  ["another type accepted", true, usual, { accept: "text/html" }]
]

/** Bodies that are no message. */
const bodies = {
  nothing: "",
  "half a message": JSON.stringify(usual).slice(0, 40),
  "a prototype among the arguments": JSON.stringify(usual).replace('"id":"x"', '"__proto__":{"id":"x"}'),
  "a prototype in the message": JSON.stringify(usual).replace('"id":7', '"__proto__":{},"id":7'),
  "a key twice": JSON.stringify(usual).replace('"id":"x"', '"id":"y","id":"x"')
}

it.effect("messages near the usual one are the same, and what is unusual is left to the SDK", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const agents = (yield* bothWays).map(({ agent }) => agent)
      for (const [what, isPlain, message, more] of messages) {
        const sent = { ...headers, ...more }
        const read = message === undefined ? undefined : JSON.parse(JSON.stringify(message))
        assert.strictEqual(plainCall(sent, read, "contributor") !== undefined, isPlain, what)
        yield* assertSame(agents, what, sent, () => JSON.stringify(message))
      }
      for (const [what, body] of Object.entries(bodies)) yield* assertSame(agents, what, headers, () => body)
      assert.isUndefined(plainCall(headersFor("memory_add"), messageFor("memory_add", {}), "reader"))
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)
