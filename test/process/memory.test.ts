/** A process with a small heap refuses what it has no memory for, instead of being ended by V8 (decisions.md, Memory). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Agent as Connections, request } from "node:http"
import { connect } from "node:net"
import { makeLargeTask } from "../support/agents/LargeTask.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { serviceProcess } from "../support/service/processes/Process.ts"
import { Service } from "../support/service/Service.ts"

/** An argument of memory_add that fills the message up to 1 MiB with copies of `unit`. */
const filled = ({ write_context }: Agent, open: string, unit: string, close: string) => {
  const params = JSON.stringify({ name: "memory_add", arguments: { write_context, body: null } })
  const [before, after] = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`.split("null")
  const room = 2 ** 20 - Buffer.byteLength(before + open + close + after)
  const units = Math.floor((room + 1) / (Buffer.byteLength(unit) + 1))
  return `${before}${open}${Array.from({ length: units }, () => unit).join()}${close}${after}`
}

const batch = (name: string, given: object, length = 50) =>
  JSON.stringify(
    Array.from({ length }, (_, id) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name, arguments: given }
    }))
  )

/**
 * Posts to /mcp on a connection of its own, the last byte once it may be sent. Returns status and first code; `closed`
 * without an answer.
 */
const post = ({ token, url }: Agent, body: string, chunked: boolean, mayEnd: Promise<void> = Promise.resolve()) =>
  Effect.callback<string>((resume) => {
    // A server that closes a connection before it has read everything resets it, and its answer can be lost.
    const agent = new Connections({ keepAlive: true })
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(chunked ? {} : { "content-length": String(Buffer.byteLength(body)) })
    }
    const sent = request(`${url}/mcp`, { method: "POST", headers, agent }, (response) => {
      let text = ""
      response.on("data", (chunk) => (text += chunk))
      response.on("close", () => {
        agent.destroy()
        const code = /"code\\*":\\*"?([\w-]+)/.exec(text)?.[1]
        resume(Effect.succeed(code === undefined ? `${response.statusCode}` : `${response.statusCode} ${code}`))
      })
    })
    sent.on("error", () => resume(Effect.succeed("closed")))
    sent.flushHeaders()
    sent.write(body.slice(0, -1))
    void mayEnd.then(() => sent.end(body.slice(-1)))
  })

/** Posts to /mcp eight times at once, on a connection of its own, and never reads. */
const postUnread = ({ token, url }: Agent, body: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { hostname, port } = new URL(url)
      const socket = connect(Number(port), hostname).on("error", () => {})
      socket.pause()
      const request =
        `POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n` +
        `Accept: application/json, text/event-stream\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      socket.write(request.repeat(8))
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

const smallHeap = Effect.flatMap(Service, ({ services }) =>
  Effect.map(serviceProcess({ NODE_OPTIONS: "--max-old-space-size=96" }), (process) => ({
    url: process.url,
    services
  }))
)

layer(Service.layer, { timeout: "120 seconds", excludeTestServices: true })("a process with a heap of 96 MiB", (it) => {
  it.effect(
    "refuses most of 200 large bodies at once with 429, and answers another project",
    () =>
      Effect.gen(function* () {
        const on = yield* Effect.orDie(smallHeap)
        const hostile = yield* Agent.make(on)
        const honest = yield* Agent.make(on)
        const bodies = [
          filled(hostile, "[", "[{}]", "]"),
          filled(hostile, "[", '{"99":0}', "]"),
          filled(hostile, '"', "ж".repeat(100), '"')
        ]
        // Whichever body is read holds its memory until a hundred others were refused, however fast the machine is.
        const most = Promise.withResolvers<void>()
        let refusals = 0
        const flood = Effect.forEach(
          Array.from({ length: 200 }),
          (_, n) =>
            Effect.map(post(hostile, bodies[n % bodies.length]!, n % 5 === 0, most.promise), (outcome) => {
              if (outcome === "429 rate_limited" && ++refusals > 100) most.resolve()
              return outcome
            }),
          { concurrency: "unbounded" }
        )
        const calls = Effect.forEach(Array.from({ length: 20 }), (_, n) =>
          Effect.map(honest.write("memory_add", { kind: "note", body: `note ${n}` }), ({ code }) => code)
        )
        const [outcomes, codes] = yield* Effect.all([flood, calls], { concurrency: 2 })
        assert.includeMembers(["200 invalid_request", "400 -32700", "429 rate_limited"], outcomes)
        assert.isAbove(refusals, 100)
        assert.isBelow(refusals, 200)
        assert.deepStrictEqual([...new Set(codes)], [undefined])
        const alone = yield* Effect.forEach(bodies, (body) => post(hostile, body, false))
        assert.deepStrictEqual(alone, ["400 -32700", "400 -32700", "200 invalid_request"])
      }),
    120_000
  )

  it.effect(
    "refuses batches whose answers do not fit, and answers another project",
    () =>
      Effect.gen(function* () {
        const on = yield* Effect.orDie(smallHeap)
        const hostile = yield* Effect.forEach(Array.from({ length: 6 }), () => Agent.make(on))
        const honest = yield* Agent.make(on)
        const batches = yield* Effect.forEach(hostile, (agent) =>
          Effect.map(agent.note("жук ".repeat(2300)), ({ id }) => batch("memory_get", { id }))
        )
        const flood = Effect.forEach(
          Array.from({ length: 60 }),
          (_, n) => post(hostile[n % 6]!, batches[n % 6]!, false),
          { concurrency: "unbounded" }
        )
        const [outcomes, called] = yield* Effect.all([flood, honest.call("continuity_context")], { concurrency: 2 })
        assert.notInclude(outcomes, "closed")
        assert.include(outcomes, "429 rate_limited")
        assert.strictEqual(called.code, undefined)
      }),
    120_000
  )

  it.effect(
    "survives large answers that nobody reads, and answers another project",
    () =>
      Effect.gen(function* () {
        const on = yield* Effect.orDie(smallHeap)
        const hostile = yield* Agent.make(on)
        const honest = yield* Agent.make(on)
        const unread = batch("task_get", { id: yield* makeLargeTask(hostile) }, 8)
        for (let n = 0; n < 12; n++) {
          yield* postUnread(hostile, unread)
          assert.strictEqual((yield* honest.note(`note ${n}`)).body, `note ${n}`)
        }
      }).pipe(Effect.scoped),
    120_000
  )
})
