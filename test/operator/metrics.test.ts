/** Metrics for Prometheus on a separate port, and telemetry for a collector; neither contains a secret. */
import { assert, it as test, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Metric, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { randomUUID } from "node:crypto"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { sweeps } from "../../src/App.ts"
import { Gauges } from "../../src/people/operator/Gauges.ts"
import { Backups } from "../../src/platform/backups/Backups.ts"
import { counted, enrollments, timed } from "../../src/platform/metrics/Metrics.ts"
import { read, rows, sections } from "../support/run/Markdown.ts"
import { send } from "../support/network/Http.ts"
import { cpuSeconds, fileLimit, rssMib } from "../support/run/Proc.ts"
import { request } from "../support/network/Raw.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../support/phones/Phone.ts"
import { freePort } from "../support/network/FreePort.ts"
import { serviceProcess } from "../support/service/processes/Process.ts"
import { faultyDatabase } from "../support/service/Faults.ts"
import { instance, Service } from "../support/service/Service.ts"
import { makePerson } from "../support/people/SignIn.ts"
import { fresh } from "../support/bridges/Steps.ts"

const started = Effect.fnUntraced(function* (processes: string) {
  const port = yield* freePort
  const folder = mkdtempSync(join(tmpdir(), "metrics-test-"))
  yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
  const server = yield* serviceProcess({
    SERVICE_PROCESSES: processes,
    SERVICE_METRICS_PORT: String(port),
    SERVICE_ERASURE_FILE: join(folder, "erasures"),
    SERVICE_BACKUP_DIR: join(folder, "backups"),
    SERVICE_BACKUP_KEY: "t4ZsHq8LxWv2NcRy6JmEb0UaKf7GdPoT"
  })
  const page = `http://127.0.0.1:${port}/metrics`
  return { server, page, scrape: Effect.map(send(page, { method: "GET" }), ({ text }) => text) }
})
const withMetrics = started("1")

/** A Bridge enrolls and prepares a rotation, tools are called, unknown paths are requested. Returns all secrets used. */
const traffic = Effect.fnUntraced(function* (server: { readonly url: string }) {
  const service = yield* Service
  const bridge = yield* fresh()
  const challenge = yield* bridge.askChallenge(server)
  const proof = yield* bridge.prove(server, challenge)
  const token: string = proof.body.access_token
  const prepared = yield* send(`${server.url}/bridge/v1/tokens/rotate/prepare`, { bearer: token, key: randomUUID() })
  assert.strictEqual(prepared.status, 201, prepared.text)
  const confirm = { bearer: token, key: randomUUID(), body: { rotation_id: prepared.body.rotation_id } }
  yield* send(`${server.url}/bridge/v1/tokens/rotate/confirm`, confirm)
  const agent = (yield* Agent.make(service)).at(server)
  yield* agent.call("memory_get", { id: randomUUID() })
  yield* agent.call("memory_search", { query: "harbour" })
  const { signature_b64 } = yield* bridge.proofBody(challenge)
  for (const secret of [token, challenge.body.nonce_b64, signature_b64!]) yield* misplace(server, secret)
  yield* send(`${server.url}/healthz`, { method: "DELETE" })
  const secrets: ReadonlyArray<unknown> = [
    token,
    prepared.body.successor_token,
    bridge.credential,
    agent.token,
    challenge.body.nonce_b64,
    signature_b64,
    ...planted
  ]
  for (const secret of secrets) assert.isString(secret)
  return secrets as ReadonlyArray<string>
})

/** Values that a sign-in carries in URLs, forms and cookies. */
const planted = ["a-state-of-a-client", "a-code-of-a-client", "a-challenge-of-a-client", "a-cookie-of-a-browser"]

const unescaped = (text: string) =>
  text.replaceAll(/%([\da-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))

/** Sends a secret where it belongs and where it does not: in paths and queries, escaped or not, and in headers. */
const misplace = Effect.fnUntraced(function* (server: { readonly url: string }, secret: string) {
  const [state, code, code_challenge, cookie] = planted
  const escaped = [...secret].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("")
  const query = new URLSearchParams({
    state: state!,
    code: code!,
    code_challenge: code_challenge!,
    access_token: secret
  })
  const headers = {
    cookie: `__Host-oauth=${cookie}`,
    referer: `${server.url}/?${query}`,
    "user-agent": secret,
    "x-request-id": secret,
    traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01`,
    tracestate: `vendor=${secret.slice(0, 40)}`
  }
  for (const path of [
    `/nowhere/${secret}`,
    `/nowhere/${escaped}`,
    `/nowhere?${query}`,
    `/authorize?${query}`,
    `/oauth/consent?${query}`,
    `/bridge/v1/tokens/self?${query}`
  ]) {
    yield* send(`${server.url}${path}`, { method: "GET", headers })
  }
  const form = { "content-type": "application/x-www-form-urlencoded" }
  yield* send(`${server.url}/token`, { headers: form, body: `grant_type=authorization_code&${query}` })
})

/** The values of one metric by its labels as printed. */
const values = (page: string, name: string) =>
  Object.fromEntries(
    [...page.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (.+)$`, "gm"))].map(([, labels = "", value]) => [
      labels,
      Number(value)
    ])
  )

const samples = (page: string) => [...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!)

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("a server with a metrics port", (it) => {
  it.effect("counts requests by route template and never shows what was sent", () =>
    Effect.gen(function* () {
      const { scrape, server } = yield* withMetrics
      const secrets = yield* traffic(server)
      const page = yield* scrape
      const requests = values(page, "service_http_requests_total")
      assert.deepInclude(requests, {
        'method="POST",route="/bridge/v1/enrollment/challenges",status="201"': 1,
        'method="POST",route="/mcp",status="200"': 2,
        'method="other",route="unknown",status="404"': 9,
        'method="other",route="/healthz",status="405"': 1
      })
      assert.strictEqual(values(page, "service_http_request_duration_seconds_count")['route="/mcp"'], 2)
      for (const secret of [...secrets, "nowhere"]) assert.notInclude(page, secret)
    })
  )

  it.effect("counts operations of Bridges and agents by outcome, and reads gauges from the database", () =>
    Effect.gen(function* () {
      const { scrape, server } = yield* withMetrics
      yield* traffic(server)
      const page = yield* scrape
      assert.deepInclude(values(page, "service_bridge_enrollments_total"), {
        'operation="challenge",code="ok"': 1,
        'operation="proof",code="ok"': 1
      })
      const rotations = values(page, "service_bridge_rotations_total")
      assert.strictEqual(rotations['operation="prepare",code="ok"'], 1)
      assert.strictEqual(Object.keys(rotations).filter((labels) => labels.startsWith('operation="confirm"')).length, 1)
      assert.isUndefined(rotations['operation="confirm",code="ok"'])
      assert.deepEqual(values(page, "service_mcp_tool_calls_total"), {
        'tool="memory_get",code="memory_not_found"': 1,
        'tool="memory_search",code="ok"': 1
      })
      assert.strictEqual(values(page, "service_mcp_tool_duration_seconds_count")['tool="memory_search"'], 1)
      assert.deepEqual(values(page, "service_database_up"), { "": 1 })
      assert.isAbove(values(page, "service_bridge_rotations_pending")[""]!, 0)
      assert.isAbove(values(page, "service_database_size_bytes")[""]!, 1_000_000)
      assert.isAbove(values(page, "service_database_connections")['state="active"']!, 0)
      assert.deepEqual(values(page, "service_bridge_suspicions_total"), {
        'action="bridge.token_reused_after_rotation"': 0,
        'action="bridge.rotation_prepared_elsewhere"': 0
      })
    })
  )

  it.effect("shows exactly the metrics that docs/reference.md explains, and does all work in the background", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const due = randomUUID()
      yield* sql`
        insert into project (project_id, name, created_at, disabled_at, delete_after)
        select ${due}::uuid, 'Due', at, at, at
          from (select clock_timestamp() - interval '8 days' as at) long_ago`
      const { scrape, server } = yield* started("2")
      yield* traffic(server)
      const explained = rows(sections(read("docs/reference.md"), 2).get("Metrics")!).map(({ Metric }) => Metric!)
      const page = yield* scrape
      assert.sameMembers(samples(page), explained)
      const others = ["link audit rows", "keep audit partitions", "make backups"]
      assert.sameMembers(
        Object.keys(values(page, "service_sweep_failures_total")),
        [...sweeps.map(({ name }) => name), ...others].map((name) => `sweep="${name}"`)
      )
      yield* Effect.repeat(sql`select from project where project_id = ${due}::uuid and deleted_at is not null`, {
        schedule: Schedule.spaced("50 millis"),
        until: (found) => found.length > 0
      })
    })
  )

  it.effect("says when the last good backup was made: an external database is not restored into", () =>
    Effect.gen(function* () {
      const { scrape } = yield* withMetrics
      const name = "service_backup_last_good_timestamp_seconds"
      const found = yield* scrape.pipe(
        Effect.map((text) => values(text, name)),
        Effect.delay("200 millis"),
        Effect.repeat({ until: (seconds) => (seconds['trial="any"'] ?? 0) > 0 }),
        Effect.timeout("40 seconds")
      )
      assert.isBelow(Math.abs(found['trial="any"']! - Date.now() / 1000), 60)
      assert.strictEqual(found['trial="restored"'], 0)
    })
  )

  it.effect("counts tokens in the last tenth of their lifetime, and reuse after rotation", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { scrape, server } = yield* withMetrics
      yield* traffic(server)
      const [token] = yield* traffic(server)
      const bridge = yield* sql<{ identity_id: string }>`
        select identity_id from bridge_token where state = 'active' order by created_at desc limit 1`
      yield* sql`
        update bridge_token set expires_at = clock_timestamp() + interval '1 hour'
         where identity_id = ${bridge[0]!.identity_id}::uuid and state = 'active'`
      assert.strictEqual(values(yield* scrape, "service_bridge_tokens_near_expiry")[""], 1)
      yield* sql`
        update bridge_rotation
           set state = 'cancelled', ended_at = clock_timestamp()
         where identity_id = ${bridge[0]!.identity_id}::uuid and state = 'pending'`
      yield* sql`
        update bridge_token
           set state = 'revoked', ended_at = clock_timestamp() - interval '1 hour', end_reason = 'rotated'
         where identity_id = ${bridge[0]!.identity_id}::uuid and state = 'active'`
      yield* send(`${server.url}/bridge/v1/tokens/self`, { method: "GET", bearer: token })
      const suspicions = values(yield* scrape, "service_bridge_suspicions_total")
      assert.strictEqual(suspicions['action="bridge.token_reused_after_rotation"'], 1)
    })
  )

  it.effect("shows due notifications, paused environments and delivery outcomes", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const phone = yield* makeRegisteredPhone(service, yield* makePerson(service))
      const { scrape } = yield* withMetrics
      const notify = sql`
        insert into push_outbox (
          delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at,
          created_at)
        select gen_random_uuid(), gen_random_uuid(), device_id, project_id, 'task.blocked', 2, gen_random_uuid()::text,
               'pending', clock_timestamp() - interval '5 minutes', clock_timestamp() + interval '1 day',
               clock_timestamp()
          from mobile_device
         where device_id = ${phone.device_id}::uuid`
      yield* notify
      yield* Effect.repeat(sql`select 1 from push_outbox where state = 'delivered'`, {
        schedule: Schedule.spaced("50 millis"),
        until: (rows) => rows.length === 1
      })
      // The next notification stays due: the device rests, as after a 429 from APNs.
      yield* sql`update mobile_device set resting_until = clock_timestamp() + interval '1 hour'`
      yield* notify
      yield* sql`
        insert into push_provider_state (provider, environment, paused_until, reason, failures)
        values ('apns', 'production', clock_timestamp() + interval '1 hour', 'TopicDisallowed', 1)`
      const page = yield* scrape
      assert.strictEqual(values(page, "service_push_due")[""], 1)
      assert.isAtLeast(values(page, "service_push_oldest_due_seconds")[""]!, 300)
      assert.deepEqual(values(page, "service_push_paused"), {
        'environment="production"': 1,
        'environment="development"': 0,
        'environment="web"': 0,
        'environment="channel"': 0
      })
      const deliveries = values(page, "service_push_deliveries_total")
      assert.strictEqual(deliveries['environment="production",outcome="delivered"'], 1)
      assert.strictEqual(deliveries['environment="production",outcome="dead"'], 0)
      yield* sql`delete from push_provider_state`
    })
  )

  it.effect("reports that the database is away, and removes the gauges read from it", () =>
    Effect.gen(function* () {
      const { scrape, server } = yield* withMetrics
      yield* server.line.cut
      const page = yield* scrape
      assert.deepEqual(values(page, "service_database_up"), { "": 0 })
      assert.notInclude(page, "service_database_size_bytes")
    })
  )

  it.effect("serves /metrics only under a loopback name", () =>
    Effect.gen(function* () {
      const { page } = yield* withMetrics
      const { origin, port } = new URL(page)
      const status = (host: string) => Effect.map(request(origin, "GET", "/metrics", { host }), ({ status }) => status)
      for (const name of ["127.0.0.1", "localhost", "[::1]"]) assert.strictEqual(yield* status(`${name}:${port}`), 200)
      for (const name of ["evil.example", "localhost.evil.example", ""]) {
        assert.strictEqual(yield* status(`${name}:${port}`), 421)
      }
    })
  )

  it.effect("serves /metrics on that port only, and nothing else there", () =>
    Effect.gen(function* () {
      const { page, server } = yield* withMetrics
      const status = (url: string) => Effect.map(send(url, { method: "GET" }), ({ status }) => status)
      assert.strictEqual(yield* status(`${server.url}/metrics`), 404)
      assert.strictEqual(yield* status(page), 200)
      assert.strictEqual(yield* status(page.replace("/metrics", "/healthz")), 404)
    })
  )
})

/** An HTTP server that keeps what it receives, by path. */
const collector = Effect.acquireRelease(
  Effect.promise(async () => {
    const received = new Map<string, string>()
    const server = createServer((request, response) => {
      let text = ""
      request.on("data", (bytes: Buffer) => (text += bytes.toString()))
      request.on("end", () => {
        received.set(request.url!, (received.get(request.url!) ?? "") + text)
        response.end("{}")
      })
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    return { received, server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }),
  ({ server }) => Effect.sync(() => server.close())
)

layer(Service.layer)("the gauges of the database", (it) => {
  it.effect("are measured once in five seconds, however often they are read", () =>
    Effect.gen(function* () {
      let statements = 0
      const { layer } = faultyDatabase((statement) => {
        statements += 1
        return statement
      })
      const { services } = yield* instance({}, layer)
      const backups = Context.make(Backups, { state: Effect.succeedNone } as unknown as Backups["Service"])
      const built = yield* Effect.provideContext(
        Layer.build(Layer.fresh(Gauges.layer)),
        Context.merge(services, backups)
      )
      const { refresh } = Context.get(built, Gauges)
      const before = statements
      yield* Effect.replicateEffect(refresh, 3)
      assert.strictEqual(statements - before, 1)
      yield* TestClock.adjust("5 seconds")
      yield* refresh
      assert.strictEqual(statements - before, 2)
    })
  )
})

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("the process metrics", (it) => {
  it.effect("are those of the server's process, and its processor time only grows", () =>
    Effect.gen(function* () {
      const began = Date.now() / 1000
      const { scrape, server } = yield* withMetrics
      const first = yield* scrape
      yield* send(`${server.url}/healthz`, { method: "GET" })
      const page = yield* scrape
      const one = (name: string, of = page) => values(of, name)[""]!
      assert.include(page, "# TYPE process_cpu_seconds_total counter")
      assert.isAbove(one("process_cpu_seconds_total", first), 0)
      assert.isAbove(one("process_cpu_seconds_total"), one("process_cpu_seconds_total", first))
      assert.isAtMost(one("process_cpu_seconds_total"), cpuSeconds(server.pid) + 0.1)
      assert.closeTo(one("process_resident_memory_bytes") / 2 ** 20, rssMib(server.pid), 64)
      assert.isBelow(one("nodejs_heap_size_used_bytes"), one("nodejs_heap_size_total_bytes"))
      assert.isAbove(one("nodejs_heap_size_used_bytes"), 2 ** 20)
      assert.isAtLeast(one("process_start_time_seconds"), began)
      assert.isAbove(one("process_open_fds"), 10)
      assert.strictEqual(one("process_max_fds"), fileLimit(server.pid))
      assert.isAbove(one("nodejs_eventloop_lag_max_seconds", first), 0)
      assert.isAtLeast(one("nodejs_eventloop_lag_max_seconds", first), one("nodejs_eventloop_lag_p99_seconds", first))
    })
  )
})

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("a server with a collector", (it) => {
  it.effect("sends traces, metrics and logs, flushes them when it stops, and sends no secret", () =>
    Effect.gen(function* () {
      const { received, url } = yield* collector
      const server = yield* serviceProcess({ SERVICE_OTLP_URL: url })
      const secrets = yield* traffic(server)
      server.signal("SIGTERM")
      assert.strictEqual(yield* server.exit, 0)
      assert.sameMembers([...received.keys()], ["/v1/traces", "/v1/metrics", "/v1/logs"])
      assert.include(received.get("/v1/traces"), '"Enrollment.prove"')
      assert.include(received.get("/v1/metrics"), "service_bridge_enrollments_total")
      assert.include(received.get("/v1/metrics"), "process_cpu_seconds_total")
      assert.include(received.get("/v1/logs"), '"Answered"')
      // Percent-decoded, so that an escaped secret is found too.
      const all = unescaped([...received.values()].join(""))
      for (const secret of secrets) assert.notInclude(all, secret)
      assert.include(received.get("/v1/traces"), "<redacted>")
      assert.notInclude(received.get("/v1/traces"), `${url}/v1`)
    })
  )

  it.effect("sends the name of a failure, but no message: PostgreSQL quotes values in it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { received, url } = yield* collector
      const server = yield* serviceProcess({ SERVICE_OTLP_URL: url })
      yield* sql`alter table audit_event add constraint quoting check (address <> '127.0.0.1') not valid`
      const bridge = yield* fresh()
      const challenge = yield* bridge.askChallenge(server)
      assert.strictEqual(challenge.status, 500)
      yield* sql`alter table audit_event drop constraint quoting`
      server.signal("SIGTERM")
      yield* server.exit
      const traces = received.get("/v1/traces")!
      assert.include(traces, "StatementDefect")
      assert.notInclude(traces, "violates check constraint")
    })
  )
})

test.effect("a duration is recorded in seconds", () =>
  Effect.gen(function* () {
    const seconds = Metric.histogram("a_duration_seconds", { boundaries: [1] })
    const step = yield* Effect.forkChild(timed(seconds)(Effect.sleep("250 millis")))
    yield* TestClock.adjust("250 millis")
    yield* Fiber.join(step)
    assert.closeTo((yield* Metric.value(seconds)).sum, 0.25, 1e-6)
  })
)

test.effect.each([
  ["ok", Effect.void],
  ["bridge_revoked", Effect.fail({ _tag: "bridge_revoked" })],
  ["internal_error", Effect.die(new Error("A planted defect"))],
  ["cancelled", Effect.interrupt]
] as ReadonlyArray<readonly [string, Effect.Effect<void, { readonly _tag: string }>]>)(
  "counts a step once by its outcome: %s",
  ([code, step]) =>
    Effect.gen(function* () {
      const codes = ["ok", "bridge_revoked", "internal_error", "cancelled"]
      const name = `step that ends with ${code}`
      yield* Effect.exit(counted(enrollments, name)(step))
      const counts = yield* Effect.forEach(codes, (one) => Metric.value(enrollments(name, one)))
      assert.deepStrictEqual(
        counts.map((state) => (state as Metric.CounterState<number>).count),
        codes.map((one) => (one === code ? 1 : 0))
      )
    })
)
