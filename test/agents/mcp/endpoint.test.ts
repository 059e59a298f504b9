/** The MCP endpoint over HTTP (spec 4.8): origins, credentials, methods, bodies, rates. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { connect } from "node:net"
import { parse } from "../../../src/agents/mcp/Messages.ts"
import { allows } from "../../../src/agents/mcp/Origins.ts"
import { tokenShare } from "../../../src/platform/edge/limits/MemoryBudget.ts"
import { makeToken, refreshTimes, signIn } from "../../support/agents/Agent.ts"
import { makeLargeTask } from "../../support/agents/LargeTask.ts"
import { Agent, issueToken } from "../../support/agents/McpAgent.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { exchange } from "../../support/network/Raw.ts"
import { instance, Service } from "../../support/service/Service.ts"

const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
const accept = { accept: "application/json, text/event-stream" }

/** A message of so many bytes. */
const pingOf = (bytes: number) => {
  const body = JSON.stringify({ ...ping, params: { _meta: { x: "" } } })
  return body.replace('"x":""', `"x":"${"a".repeat(bytes - body.length)}"`)
}

/** The beginning of a request; without more headers it does not say how long it is. */
const headOf = ({ token }: Agent, more = ["connection: close", "transfer-encoding: chunked"]) => {
  const headers = { ...accept, "content-type": "application/json", authorization: `Bearer ${token}` }
  const lines = Object.entries(headers).map((header) => header.join(": "))
  return `${["POST /mcp HTTP/1.1", "host: x", ...more, ...lines].join("\r\n")}\r\n\r\n`
}

/** Sends a message of so many bytes in a chunk. */
const answerInChunks = (agent: Agent, bytes: number) =>
  exchange(agent.url, `${headOf(agent)}${bytes.toString(16)}\r\n${pingOf(bytes)}\r\n0\r\n\r\n`)
/** The same; returns the status. */
const inChunks = (agent: Agent, bytes: number) =>
  Effect.map(answerInChunks(agent, bytes), (text) => Number(text.slice(9, 12)))

/** Real time for the network, which ignores TestClock. */
const wink = Effect.promise(() => new Promise((resume) => setTimeout(resume, 5)))

/** Moves the test clock on, by which a request waits for memory, until the effect ends. */
const inTestTime = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    while (fiber.pollUnsafe() === undefined) yield* Effect.andThen(wink, TestClock.adjust("100 millis"))
    return yield* Fiber.join(fiber)
  })

/** Sends the call each time on the same connection, and never reads. */
const unreadCalls = (agent: Agent, name: string, given: object) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { hostname, port } = new URL(agent.url)
      return connect(Number(port), hostname)
        .on("error", () => {})
        .pause()
    }),
    (socket) => Effect.sync(() => socket.destroy())
  ).pipe(
    Effect.map((socket) => {
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } })
      return Effect.sync(() => socket.write(headOf(agent, [`content-length: ${body.length}`]) + body))
    })
  )

layer(Service.layer)("the MCP endpoint", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))

  for (const method of ["GET", "POST", "DELETE", "HEAD", "PUT"]) {
    it.effect(`${method} without a credential gets the generic 401, which names the resource metadata`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const answer = yield* send(`${service.url}/mcp`, { method, ...(method === "POST" ? { body: ping } : {}) })
        assert.strictEqual(answer.status, 401)
        const challenge = answer.headers.get("www-authenticate") ?? ""
        assert.include(challenge, 'resource_metadata="http://127.0.0.1:8787/.well-known/oauth-protected-resource/mcp"')
        assert.include(challenge, "scope=")
      })
    )
  }

  for (const method of ["GET", "DELETE", "HEAD", "PUT"]) {
    it.effect(`${method} with a credential gets 405 with Allow: POST`, () =>
      Effect.gen(function* () {
        const { token: bearer, url } = yield* agent
        const answer = yield* send(`${url}/mcp`, { method, bearer })
        assert.strictEqual(answer.status, 405)
        assert.strictEqual(answer.headers.get("allow"), "POST")
      })
    )
  }

  it.effect("/mcp/ is the same endpoint", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const answer = yield* send(`${url}/mcp/`, { bearer, headers: accept, body: ping })
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  it.effect("a foreign Origin gets 403 before the credential is checked", () =>
    Effect.gen(function* () {
      const { token, url } = yield* agent
      const foreign = [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://user@localhost:3000",
        "http://user:password@127.0.0.1",
        "http://localhost:3000/",
        "http://localhost:3000/path",
        "http://localhost:80",
        "HTTP://localhost:3000",
        "http://LOCALHOST:3000",
        "http://localhost:3000 http://localhost:3000",
        "foo://localhost"
      ]
      for (const bearer of [token, undefined]) {
        for (const origin of foreign) {
          const answer = yield* send(`${url}/mcp`, { bearer, headers: { ...accept, origin }, body: ping })
          assert.deepStrictEqual([answer.status, answer.code], [403, "origin_not_allowed"])
          assert.isNull(answer.headers.get("access-control-allow-origin"))
        }
      }
    })
  )

  it.effect("a loopback page may call a service on a loopback address, and its preflight needs no credential", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const origin = "http://localhost:6274"
      const preflight = yield* send(`${url}/mcp`, {
        method: "OPTIONS",
        headers: {
          origin,
          "access-control-request-method": "POST",
          "access-control-request-headers": "mcp-protocol-version"
        }
      })
      assert.strictEqual(preflight.status, 204)
      const listIn = ({ headers }: Answer, name: string) => (headers.get(name) ?? "").toLowerCase().split(", ")
      assert.deepStrictEqual(listIn(preflight, "access-control-allow-headers"), [
        "authorization",
        "dpop",
        "content-type",
        "accept",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
        "last-event-id"
      ])
      assert.deepStrictEqual(listIn(preflight, "access-control-allow-methods"), ["post"])
      assert.deepStrictEqual(listIn(preflight, "access-control-max-age"), ["7200"])
      const answer = yield* send(`${url}/mcp`, { bearer, headers: { ...accept, origin }, body: ping })
      assert.strictEqual(answer.headers.get("access-control-allow-origin"), origin)
      const refused = yield* send(`${url}/mcp`, { headers: { origin }, body: ping })
      assert.strictEqual(refused.status, 401)
      assert.deepStrictEqual(listIn(refused, "access-control-expose-headers"), [
        "www-authenticate",
        "mcp-protocol-version",
        "retry-after",
        "x-request-id"
      ])
      const withoutPage = yield* send(`${url}/mcp`, { bearer, headers: accept, body: ping })
      for (const varied of [preflight, answer, refused, withoutPage]) assert.include(listIn(varied, "vary"), "origin")
    })
  )

  it("a page may call from the service's own origin or a listed one, and on one machine from any loopback one", () => {
    const [remote, local, app] = ["https://bridge.example.com", "http://127.0.0.1:8787", "https://app.example.com"]
    const rows = [
      [remote, undefined, remote, true],
      [remote, undefined, "http://localhost:6274", false],
      [local, undefined, "http://localhost:6274", true],
      [local, undefined, app, false],
      [local, [app], app, true],
      [local, [app], "http://localhost:6274", false]
    ] as const
    for (const [base, listed, origin, isAllowed] of rows)
      assert.strictEqual(allows(new URL(base), listed)(origin), isAllowed, `${origin} at ${base}`)
  })

  it.effect("with SERVICE_ALLOWED_ORIGINS only the listed pages and the service's own may call", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_ALLOWED_ORIGINS: "https://app.example.com" })
      const status = (origin: string) =>
        Effect.map(send(`${url}/mcp`, { method: "OPTIONS", headers: { origin } }), (answer) => answer.status)
      assert.strictEqual(yield* status("https://app.example.com"), 204)
      assert.strictEqual(yield* status("http://127.0.0.1:8787"), 204)
      assert.strictEqual(yield* status("http://localhost:6274"), 403)
    })
  )

  it.effect("a body that is not application/json gets 415", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const headers = { ...accept, "content-type": "text/plain" }
      const answer = yield* send(`${url}/mcp`, { bearer, headers, body: JSON.stringify(ping) })
      assert.deepStrictEqual([answer.status, answer.code], [415, "unsupported_media_type"])
    })
  )

  it.effect("a body of 1 MiB is accepted and one byte more is 413, while /bridge keeps its own limit", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const post = (path: string, bytes: number) =>
        send(a.url + path, {
          bearer: a.token,
          headers: { ...accept, "idempotency-key": "k" },
          body: pingOf(bytes)
        })
      assert.strictEqual((yield* post("/mcp", 1_048_576)).status, 200)
      const large = yield* post("/mcp", 1_048_577)
      assert.deepStrictEqual([large.status, large.code], [413, "payload_too_large"])
      assert.strictEqual((yield* post("/bridge/v1/enrollment/challenges", 16 * 1024 + 1)).status, 413)
      assert.deepStrictEqual([yield* inChunks(a, 1_048_576), yield* inChunks(a, 1_048_577)], [200, 413])
    })
  )

  it.effect("a body that is not JSON is a parse error", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const answer = yield* send(`${url}/mcp`, { bearer, headers: accept, body: "{" })
      assert.deepStrictEqual([answer.status, answer.body.error.code], [400, -32_700])
      assert.strictEqual(answer.headers.get("cache-control"), "no-store")
    })
  )

  it.effect("a body of more than 10,000 values is a parse error; commas and brackets in strings do not count", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const withValues = (x: unknown) => ({ bearer, headers: accept, body: { ...ping, params: { _meta: { x } } } })
      const many = yield* send(`${url}/mcp`, withValues(Array.from({ length: 10_001 }, () => 0)))
      assert.deepStrictEqual([many.status, many.body.error.code], [400, -32_700])
      const fewer = yield* send(`${url}/mcp`, withValues(Array.from({ length: 9_990 }, () => 0)))
      const quoted = yield* send(`${url}/mcp`, withValues(`"${"[{,".repeat(10_001)}`))
      assert.deepStrictEqual([fewer.status, quoted.status], [200, 200])
    })
  )

  it("a body has 64 levels and 10,000 values at most, and objects, lists and commas count", () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
    const list = (values: number) => `[${Array.from({ length: values }, () => 0)}]`
    const objects = (count: number) => `[${Array.from({ length: count }, () => "{}")}]`
    for (const [text, isRead] of [
      [nested(64), true],
      [nested(65), false],
      [`[${nested(63)},${nested(63)}]`, true],
      [list(10_000), true],
      [list(10_001), false],
      [objects(5000), true],
      [objects(5001), false]
    ] as const)
      assert.strictEqual(Option.isSome(parse(text)), isRead, text.slice(0, 9))
  })

  it.effect("a body that is not UTF-8 is a parse error", () =>
    Effect.gen(function* () {
      const { token, url } = yield* agent
      const answer = yield* Effect.promise(() =>
        fetch(`${url}/mcp`, {
          method: "POST",
          headers: { ...accept, "content-type": "application/json", authorization: `Bearer ${token}` },
          body: Buffer.from('{"jsonrpc":"2.0","id":"é","method":"ping"}', "latin1")
        })
      )
      const { error } = yield* Effect.promise(() => answer.json() as Promise<any>)
      assert.deepStrictEqual([answer.status, error.code], [400, -32_700])
    })
  )

  it.effect("tools/list has one page and refuses any cursor", () =>
    Effect.gen(function* () {
      for (const cursor of ["x", "", 5, null]) {
        const { body } = yield* (yield* agent).post("tools/list", { cursor })
        assert.strictEqual(body.error.code, -32_602)
      }
    })
  )

  it.effect("errors of the protocol are returned unchanged", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const unknown = yield* a.post("no/such/method")
      assert.deepStrictEqual([unknown.status, unknown.body.error.code], [404, -32_601])
      const mismatch = yield* a.post("tools/list", {}, { "mcp-protocol-version": "2025-11-25" })
      assert.deepStrictEqual([mismatch.status, mismatch.body.error.code], [400, -32_020])
      const notification = yield* send(`${a.url}/mcp`, {
        bearer: a.token,
        headers: accept,
        body: { jsonrpc: "2.0", method: "notifications/initialized" }
      })
      assert.deepStrictEqual([notification.status, notification.text], [202, ""])
    })
  )

  it.effect("a subscription ends at once, because no list changes and no stream may outlive its credential", () =>
    Effect.gen(function* () {
      const notifications = {
        toolsListChanged: true,
        promptsListChanged: true,
        resourcesListChanged: true,
        resourceSubscriptions: ["memory://x"]
      }
      const { status, text } = yield* (yield* agent).post("subscriptions/listen", { notifications })
      const messages = text.split("\n\n").flatMap((event) => /^data: (.*)$/m.exec(event)?.slice(1) ?? [])
      const [acknowledged, result, ...more] = messages.map((data) => JSON.parse(data))
      assert.strictEqual(status, 200)
      assert.strictEqual(acknowledged.method, "notifications/subscriptions/acknowledged")
      assert.deepStrictEqual(acknowledged.params.notifications, {})
      assert.strictEqual(result.result.resultType, "complete")
      assert.deepStrictEqual(more, [])
    })
  )

  it.effect("every answer carries a request id and is not stored", () =>
    Effect.gen(function* () {
      const { headers } = yield* (yield* agent).post("tools/list")
      assert.match(headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/)
      assert.strictEqual(headers.get("cache-control"), "no-store")
      assert.isNull(headers.get("mcp-session-id"))
    })
  )

  it.effect("a client that closes its connection is not told to keep it", () =>
    Effect.gen(function* () {
      const text = yield* answerInChunks(yield* agent, 100)
      assert.match(text, /^connection: close\r$/im)
      assert.notMatch(text, /^connection: keep-alive/im)
    })
  )

  for (const revision of ["2025-11-25", "2025-06-18", "2025-03-26"]) {
    it.effect(`revision ${revision} is served without a session`, () =>
      Effect.gen(function* () {
        const { token: bearer, url } = yield* agent
        const initialize = yield* send(`${url}/mcp`, {
          bearer,
          headers: accept,
          body: {
            jsonrpc: "2.0",
            id: 1,
            method: "initialize",
            params: { protocolVersion: revision, capabilities: {}, clientInfo: { name: "t", version: "1" } }
          }
        })
        assert.include(initialize.text, `"protocolVersion":"${revision}"`)
        assert.isNull(initialize.headers.get("mcp-session-id"))
        const listed = yield* send(`${url}/mcp`, {
          bearer,
          headers: { ...accept, "mcp-protocol-version": revision },
          body: { jsonrpc: "2.0", id: 2, method: "tools/list" }
        })
        assert.include(listed.text, "memory_search")
      })
    )
  }

  it.effect("a call that waits is refused in a batch or a large body, whose memory it would hold", () =>
    Effect.gen(function* () {
      const a = yield* Agent.make(yield* Service)
      const task = yield* a.task("Task")
      const given = { id: task.id, version: 9, timeout_seconds: 25 }
      const wait = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "task_wait", arguments: given } }
      const large = { ...wait, params: { ...wait.params, _meta: { padding: "x".repeat(20_000) } } }
      for (const body of [[wait, { jsonrpc: "2.0", id: 2, method: "ping" }], large]) {
        const { code, status, text } = yield* send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body })
        assert.deepStrictEqual([status, code], [400, "invalid_request"])
        assert.include(text, "sent alone")
      }
    })
  )

  it.effect("a batch of revision 2025-03-26 is answered, and one of more than 50 messages is refused", () =>
    Effect.gen(function* () {
      const { token: bearer, url } = yield* agent
      const batch = (size: number) => Array.from({ length: size }, (_, id) => ({ ...ping, id }))
      const answered = yield* send(`${url}/mcp`, { bearer, headers: accept, body: batch(3) })
      assert.deepStrictEqual([answered.status, answered.text.match(/"result"/g)?.length], [200, 3])
      const refused = yield* send(`${url}/mcp`, { bearer, headers: accept, body: batch(51) })
      assert.deepStrictEqual([refused.status, refused.code], [400, "invalid_request"])
    })
  )

  it.effect("a batch needs the scopes of each of its calls, whatever stands before them", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* Agent.make(service, { scopes: ["memory:read", "tasks:read"] })
      const call = (name: string, given = {}) => ({
        jsonrpc: "2.0",
        id: name,
        method: "tools/call",
        params: { name, arguments: { write_context: a.write_context, ...given } }
      })
      const write = call("memory_add", { kind: "note", body: "x" })
      for (const before of [[], [ping], [call("no_such_tool")], [call("task_list")]]) {
        const { code, status } = yield* send(`${a.url}/mcp`, {
          bearer: a.token,
          headers: accept,
          body: [...before, write]
        })
        assert.deepStrictEqual([status, code], [403, "insufficient_scope"], JSON.stringify(before))
      }
      assert.deepStrictEqual((yield* a.call("memory_search")).output.entries, [])
    })
  )

  it.effect("a disconnect cancels the running call", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const task = yield* a.task("T")
      const given = { write_context: a.write_context, id: task.id, expected_version: task.version, title: "changed" }
      const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "task_update", arguments: given } }
      const throughSdk = send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body: call })
      // A transaction caches pg_stat_activity until the snapshot is cleared.
      const waiting = Effect.gen(function* () {
        yield* sql`select pg_stat_clear_snapshot()`
        const [row] = yield* sql<{ n: number }>`
          select count(*)::int as n
            from pg_stat_activity
           where datname = current_database()
             and wait_event_type = 'Lock'`
        return row!.n
      })
      const hold = Effect.gen(function* () {
        yield* sql`select 1 from task where id = ${task.id}::uuid for update`
        for (const update of [Effect.asVoid(a.update(task, { title: "changed" })), Effect.asVoid(throughSdk)]) {
          const fiber = yield* Effect.forkChild(update)
          assert.strictEqual(yield* Effect.repeat(waiting, { until: (n) => n === 1, times: 5000 }), 1)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(yield* Effect.repeat(waiting, { until: (n) => n === 0, times: 1000 }), 0)
        }
      })
      yield* sql.withTransaction(hold)
      assert.strictEqual((yield* a.call("task_get", { id: task.id })).output.task.version, 1)
    })
  )

  it.effect("a credential gets 429 with Retry-After after 500 calls at once; other credentials are served", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const a = (yield* agent).at(limited)
      const batch = Array.from({ length: 50 }, (_, id) => ({ ...ping, id }))
      const post = send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body: batch })
      const isServed = Effect.map(post, ({ status }) => status === 200)
      const statuses = yield* Effect.replicateEffect(post, 10)
      assert.isTrue(statuses.every(({ status }) => status === 200))
      const refused = yield* a.call("server_identity")
      assert.deepStrictEqual([refused.answer.status, refused.code], [429, "rate_limited"])
      assert.strictEqual(refused.answer.headers.get("retry-after"), "1")
      assert.strictEqual((yield* (yield* agent).at(limited).call("server_identity")).answer.status, 200)
      // Fifty more each second.
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([yield* isServed, yield* isServed], [true, false])
    })
  )

  it.effect("a body counts by its size, in chunks, too", () =>
    Effect.gen(function* () {
      const a = (yield* agent).at(yield* instance({ SERVICE_RATE_LIMITS: "on" }))
      // 64 of 500 messages for each.
      const statuses = yield* Effect.replicateEffect(inChunks(a, 1_048_576), 8)
      assert.deepStrictEqual(statuses, [200, 200, 200, 200, 200, 200, 200, 429])
      const post = (body: unknown) =>
        Effect.map(send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body }), ({ status }) => status)
      assert.deepStrictEqual([yield* post(pingOf(1_048_576)), yield* post(ping)], [429, 200])
    })
  )

  it.effect("a body counts by its values, too", () =>
    Effect.gen(function* () {
      const a = (yield* agent).at(yield* instance({ SERVICE_RATE_LIMITS: "on" }))
      const x = Array.from({ length: 7_990 }, () => 0)
      const body = { ...ping, params: { _meta: { x } } }
      const post = send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body })
      // 40 of 500 messages for each.
      const statuses = yield* Effect.replicateEffect(post, 13)
      assert.deepStrictEqual(
        statuses.map(({ status }) => status),
        [...Array.from({ length: 12 }, () => 200), 429]
      )
    })
  )

  const colleagueOf = Effect.fnUntraced(function* (one: Agent) {
    return new Agent({ ...one, token: yield* issueToken(yield* Service, one.project_id) })
  })

  it.effect("bodies that arrive count for their token, and for its project, until they break off", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const [second, third, other] = [yield* colleagueOf(a), yield* colleagueOf(a), yield* agent]
      const answered = (sender: Agent, expected: number) =>
        Effect.repeat(inTestTime(inChunks(sender, 20_000)), { until: (status) => status === expected, times: 20 })
      // Two of 1 MiB fit for a token, four for the project.
      const arriving = (sender: Agent) =>
        Effect.replicateEffect(Effect.forkChild(exchange(sender.url, headOf(sender))), 2)
      const ofOne = yield* arriving(a)
      assert.strictEqual(yield* answered(a, 429), 429)
      assert.strictEqual(yield* inChunks(second, 20_000), 200)
      yield* arriving(second)
      assert.strictEqual(yield* answered(third, 429), 429)
      assert.strictEqual(yield* inChunks(other, 20_000), 200)
      yield* Fiber.interruptAll(ofOne)
      assert.strictEqual(yield* answered(third, 200), 200)
    })
  )

  it.effect("answers that nobody reads keep out nobody but their own token, until the connection is closed", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const colleague = yield* colleagueOf(a)
      const given = { id: yield* makeLargeTask(a) }
      const read = (reader: Agent) => inTestTime(reader.call("task_get", given))
      const codeOnceRead = (reader: Agent) =>
        Effect.map(
          Effect.repeat(read(reader), { until: ({ code }) => code === undefined, times: 20 }),
          ({ code }) => code
        )
      yield* Effect.gen(function* () {
        const askUnread = yield* unreadCalls(a, "task_get", given)
        // The kernel takes the first megabytes.
        const { details } = yield* Effect.andThen(askUnread, read(a)).pipe(
          Effect.repeat({ until: ({ details }) => details?.limit === "answer_bytes", times: 50 })
        )
        assert.strictEqual(details?.maximum, tokenShare)
        assert.isUndefined(yield* codeOnceRead(colleague))
      }).pipe(Effect.scoped)
      assert.isUndefined(yield* codeOnceRead(a))
    })
  )

  it.effect("a batch is answered up to what a token may leave unread, as it is sent", () =>
    Effect.gen(function* () {
      const a = yield* agent
      // Quotes are escaped twice: each answer has 100 KB, and not twice 33.
      const { id } = yield* a.task("quotes", { body: '"'.repeat(16_384) })
      const reads = (length: number) =>
        Array.from({ length }, (_, n) => ({
          jsonrpc: "2.0",
          id: n,
          method: "tools/call",
          params: { name: "task_get", arguments: { id } }
        }))
      const post = (body: unknown) => send(`${a.url}/mcp`, { bearer: a.token, headers: accept, body })
      const { status, text } = yield* post(reads(50))
      assert.strictEqual(status, 200)
      assert.include(text, "answer_bytes")
      assert.isAbove(text.length, tokenShare - 100_000)
      assert.isBelow(text.length, tokenShare + 50_000)
      // An id comes back with the answer.
      const long = { ...ping, id: "x".repeat(tokenShare / 4) }
      const refused = yield* post([...reads(18), long])
      assert.deepStrictEqual([refused.status, refused.code], [429, "rate_limited"])
      assert.strictEqual((yield* post([...reads(10), long])).status, 200)
    })
  )

  it.effect("a project gets 429 after 2,000 messages at once, whichever of its credentials sends them", () =>
    Effect.gen(function* () {
      // Each of two processes admits half of them.
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_PROCESSES: "2" })
      const a = yield* agent
      const messages = Array.from({ length: 50 }, () => ping.id)
      const tokens = yield* Effect.replicateEffect(issueToken(yield* Service, a.project_id), 5)
      const post = (bearer: string, body: unknown) =>
        Effect.map(send(`${limited.url}/mcp`, { bearer, headers: accept, body }), ({ status }) => status)
      const statuses = yield* Effect.forEach(tokens.slice(1), (bearer) =>
        Effect.replicateEffect(post(bearer, messages), 5)
      )
      assert.notInclude(statuses.flat(), 429)
      assert.strictEqual(yield* post(tokens[0]!, ping), 429)
      // Half of 200 more each second.
      yield* TestClock.adjust("1 second")
      const more = yield* Effect.forEach([messages, messages, ping], (body) => post(tokens[0]!, body))
      assert.deepStrictEqual(
        more.map((status) => status === 429),
        [false, false, true]
      )
      assert.strictEqual((yield* (yield* agent).at(limited).call("server_identity")).answer.status, 200)
    })
  )

  const statusOf = (on: { readonly url: string }, bearer: string, body: unknown) =>
    Effect.map(send(`${on.url}/mcp`, { bearer, headers: accept, body }), ({ status }) => status)
  const fifty = Array.from({ length: 50 }, () => ping.id)

  it.effect("a project token gets half of that, however many access tokens it has, and colleagues the rest", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { project_id, token } = yield* makeToken(limited)
      const accessTokens = yield* refreshTimes(limited, 6, yield* signIn(limited, { token }))
      const flood = yield* Effect.forEach(accessTokens, (bearer) =>
        Effect.replicateEffect(statusOf(limited, bearer, fifty), 10)
      )
      assert.lengthOf(
        flood.flat().filter((status) => status !== 429),
        20
      )
      const colleague = yield* issueToken(limited, project_id)
      const calls = yield* Effect.replicateEffect(statusOf(limited, colleague, ping), 50)
      assert.deepStrictEqual([...new Set(calls)], [200])
      // A hundred more each second.
      yield* TestClock.adjust("1 second")
      const more = yield* Effect.forEach(accessTokens.slice(0, 3), (bearer) => statusOf(limited, bearer, fifty))
      assert.deepStrictEqual(
        more.map((status) => status === 429),
        [false, false, true]
      )
    })
  )

  it.effect("bodies that are too large for what their credential has left take nothing from their project", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { project_id, token } = yield* agent
      // 64 of the 500 messages of the credential for each, and one for each that is refused.
      const statuses = yield* Effect.replicateEffect(statusOf(limited, token, pingOf(1_048_576)), 50)
      assert.deepStrictEqual(
        statuses,
        Array.from({ length: 50 }, (_, n) => (n < 7 ? 200 : 429))
      )
      const colleague = yield* issueToken(limited, project_id)
      const batches = yield* Effect.replicateEffect(statusOf(limited, colleague, fifty), 10)
      assert.notInclude(batches, 429)
    })
  )
})
